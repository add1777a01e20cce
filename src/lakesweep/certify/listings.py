"""Promises of listings: every item on some page, once, in order, and a last page that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakesweep.certify.promise import BrokenError, promise
from lakesweep.certify.throwaway import ThrowAway

__all__ = ["PROMISES"]

_AMOUNT = 2
_SUBJECT = "listings"
_KEPT = "Every one was on some page, once, in order, and each page had as many as it says."


def _pages(lake: ThrowAway, *route: str, **params: Any) -> Iterator[list[dict[str, Any]]]:
    """The pages of a listing, two items each, as any client reads them."""
    after, seen = "", {""}
    while True:
        query = {**params, "amount": _AMOUNT, "after": after}
        page = lake.offered("GET", *route, params=query).json()
        results, pagination = page["results"], page["pagination"]
        if pagination["results"] != len(results):
            raise BrokenError("A page has another number of results than it says.")
        if len(results) > _AMOUNT:
            raise BrokenError("A page has more results than were asked for.")
        yield results
        if not pagination["has_more"]:
            return
        after = pagination["next_offset"]
        if after in seen:
            raise BrokenError("A page says that there is more and leads nowhere, or back.")
        seen.add(after)


def _listed(lake: ThrowAway, field: str, *route: str, **params: Any) -> list[str]:
    items = [item[field] for page in _pages(lake, *route, **params) for item in page]
    if len(set(items)) != len(items):
        raise BrokenError("An item is on two pages.")
    return items


def _require(wanted: Sequence[str], listed: Sequence[str], *, ordered: bool = True) -> str:
    missing = set(wanted) - set(listed)
    if missing:
        raise BrokenError(f"{len(missing)} of {len(wanted)} are on no page.")
    if ordered and list(listed) != sorted(listed, key=lambda name: name.encode()):
        raise BrokenError("The items are not in the order of their bytes.")
    return _KEPT


@promise(
    _SUBJECT,
    "branches",
    needed=True,
    without="What is at the head of a branch that no page has, or staged on it, looks like garbage.",
)
def branches(lake: ThrowAway) -> str:
    """Make five branches, one of them hidden, and list all branches two at a time, hidden ones too."""
    made = [lake.branch(f"page-{n}", hidden=n == 3) for n in range(5)]
    listed = _listed(lake, "id", "branches", show_hidden=True)
    return _require(["main", *made], listed)


@promise(
    _SUBJECT,
    "tags",
    needed=True,
    without="A collector that is told to keep tagged commits (--keep-tags) does not see them all.",
)
def tags(lake: ThrowAway) -> str:
    """Make five tags and list them two at a time."""
    made = [f"tag-{n}" for n in range(5)]
    for name in made:
        lake.call("POST", "tags", body={"id": name, "ref": "main"})
    return _require(made, _listed(lake, "id", "tags"))


@promise(
    _SUBJECT,
    "commits",
    needed=True,
    without="A commit that the log leaves out looks like one that nothing reaches, and so do its objects.",
)
def commits(lake: ThrowAway) -> str:
    """Make five commits and a merge, and read the log two at a time, newest first."""
    branch = lake.branch("log")
    side = lake.branch("log-side")
    lake.upload(side, "side")
    made = [lake.commit(side, "on the side")]
    made += [lake.commit(branch, f"log {n}") for n in range(4)]
    merged = lake.call("POST", "refs", side, "merge", branch, body={}).json()["reference"]
    listed = _listed(lake, "id", "refs", branch, "commits")
    if listed[:1] != [merged]:
        raise BrokenError("The log of a branch does not begin with its head.")
    _require([merged, *made], listed, ordered=False)
    return "The head, and every ancestor by whichever parent, was on some page, once."


@promise(
    _SUBJECT,
    "objects",
    needed=True,
    without="Canaries and looks at what a branch reads would miss objects: a run can't tell that it goes wrong.",
)
def objects(lake: ThrowAway) -> str:
    """Commit three objects, stage three, and list the branch two at a time; names with blanks, % and é too."""
    branch = lake.branch("objects")
    paths = ["a b", "a%20b", "z/é", "a/1", "a/2", "a1"]
    for path in paths[:3]:
        lake.upload(branch, path)
    lake.commit(branch, "objects")
    for path in paths[3:]:
        lake.upload(branch, path)
    listed = _listed(lake, "path", "refs", branch, "objects", "ls")
    if set(listed) - set(paths):
        raise BrokenError("The listing of a branch has objects that it does not have.")
    return _require(paths, listed)


@promise(
    _SUBJECT,
    "staged changes",
    needed=True,
    without="lakesweep looks staged re-uploads up by this list; what it leaves out is kept, or the run refused.",
)
def staged_changes(lake: ThrowAway) -> str:
    """Stage five objects and list what the branch has changed since its last commit, two at a time."""
    branch = lake.branch("changes")
    paths = [f"changed-{n}" for n in range(5)]
    for path in paths:
        lake.upload(branch, path)
    return _require(paths, _listed(lake, "path", "branches", branch, "diff"))


PROMISES = (branches, tags, commits, objects, staged_changes)
