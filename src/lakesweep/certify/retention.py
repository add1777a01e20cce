"""Promises of retention rules, and of the server's own list of retained commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from lakesweep.catalogs.lakefs.retained import server_retained_commits
from lakesweep.certify.promise import BrokenError, NotDecidedError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.domain.commits import BranchId, CommitId
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogNotFoundError

__all__ = ["PROMISES"]

_SUBJECT = "retention"
_HISTORIES = 6  # at once; that all ids come in one order then happens once in 32
_MOST_HISTORIES = 24


@contextmanager
def _rules(lake: ThrowAway, days: int, branches: Mapping[str, int] | None = None) -> Iterator[None]:
    own = {BranchId(name): count for name, count in (branches or {}).items()}
    try:
        lake.client.set_rules(lake.name, RetentionRules(days, own))
    except CatalogNotFoundError as error:
        raise NotOfferedError("Setting rules answers 404.") from error
    try:
        yield
    finally:
        lake.client.delete_rules(lake.name)


def _retained(lake: ThrowAway) -> set[CommitId]:
    found = server_retained_commits(lake.client, lake.store, lake.name, lake.addresses)
    if found is None:
        raise BrokenError("There are rules, and the server says that there are none.")
    return {CommitId(raw.decode()) for raw in found.commits.ids.tolist()}


def _days_ago(lake: ThrowAway, branch: str, message: str, days: float) -> CommitId:
    at = lake.clock() - timedelta(days=days)
    return CommitId(lake.commit(branch, message, at=at))


@promise(
    _SUBJECT,
    "rules are set, read and removed",
    needed=True,
    without="A collector can't know what its owner wants to be kept.",
)
def rules_kept(lake: ThrowAway) -> str:
    """Set rules, with and without branches of their own, read each, remove them, and read again."""
    for branches in ({}, {"main": 21}):
        with _rules(lake, 14, branches):
            read = lake.client.rules(lake.name)
            if read != RetentionRules(14, {BranchId(b): d for b, d in branches.items()}):
                raise BrokenError("Rules read differently from how they were set.")
        if lake.client.rules(lake.name) is not None:
            raise BrokenError("Rules that were removed are still there.")
    return "They read as they were set, and are gone when removed."


@promise(
    _SUBJECT,
    "no rules, nothing expires",
    needed=True,
    without="A server that answers with a list of no commits would have everything expire.",
)
def without_rules(lake: ThrowAway) -> str:
    """Ask for the list of retained commits while there are no rules."""
    if server_retained_commits(lake.client, lake.store, lake.name, lake.addresses) is not None:
        raise BrokenError("The server made a list of retained commits by no rules.")
    return "The server says that there are no rules."


@promise(
    _SUBJECT,
    "days of a branch",
    without="lakesweep computes retention itself, from all commits, and keeps what either list has.",
)
def days_of_a_branch(lake: ThrowAway) -> str:
    """Make a history of 30, 20, 12 and 3 days on two branches, one with 15 days and one with 5, and read the list."""
    lake.upload("main", "for-retention")
    lake.commit("main", "something to retain")
    made = {}
    for branch in ("days-15", "days-5"):
        lake.branch(branch)
        made[branch] = {
            age: _days_ago(lake, branch, f"{branch} {age}", age) for age in (30, 20, 12, 3)
        }
    with _rules(lake, 5, {"days-15": 15}):
        retained = _retained(lake)
    wanted = {"days-15": {20, 12, 3}, "days-5": {12, 3}}
    for branch, ages in wanted.items():
        kept = {age for age, commit in made[branch].items() if commit in retained}
        if missing := ages - kept:
            raise BrokenError(f"A commit of {max(missing)} days on {branch} is dropped.")
        if more := kept - ages:
            raise BrokenError(f"A commit of {max(more)} days on {branch} never expires.")
    return "Each branch keeps what was its head within its days, and nothing older."


@promise(
    _SUBJECT,
    "whatever the order of ids",
    without="A commit that was a head an hour ago expires at once, by chance. lakesweep computes retention itself and "
    "keeps what either list has.",
)
def any_order_of_ids(lake: ThrowAway) -> str:
    """Make histories with an old line of commits and a branch made from its oldest commit an hour ago. That commit was
    a head an hour ago. See whether the list keeps it, where the new branch's id sorts before and after the old one's."""
    lake.upload("main", "for-histories")
    root = lake.commit("main", "root of histories")
    orders: dict[bool, set[bool]] = {True: set(), False: set()}
    for first in range(0, _MOST_HISTORIES, _HISTORIES):
        made = []
        for number in range(first, first + _HISTORIES):
            line, fix = f"line-{number}", f"fix-{number}"
            lake.branch(line, root)
            parent = _days_ago(lake, line, f"p {number}", 40)
            _days_ago(lake, line, f"a {number}", 35)
            head = _days_ago(lake, line, f"h {number}", 30)
            lake.branch(fix, parent)
            fixed = _days_ago(lake, fix, f"f {number}", 1 / 24)
            made.append((parent, fixed < head))
        with _rules(lake, 10):
            retained = _retained(lake)
        for parent, sorts_before in made:
            orders[sorts_before].add(parent in retained)
        if all(orders.values()):
            break
    else:
        raise NotDecidedError("All ids came in one order.")
    if orders == {True: {True}, False: {True}}:
        return "It is kept in both orders."
    if orders == {True: {True}, False: {False}}:
        raise BrokenError(
            "It is kept where the new branch's id sorts first, and dropped otherwise."
        )
    raise BrokenError("It is dropped in some histories or in all.")


PROMISES = (rules_kept, without_rules, days_of_a_branch, any_order_of_ids)
