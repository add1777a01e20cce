"""Races that can be provoked from outside: users at work beside the uncommitted list and the reading of commits.

Users work in threads while a collector's reading goes on. What they may not see afterwards is the same for every race:
an address that the server had acknowledged before the list began, that some branch reads when all is quiet again, and
that was neither in the list nor in a commit read after it. A collector would have deleted it. Addresses that came up
meanwhile are young, and safe by their age.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from lakesweep.certify.commits import committed_addresses
from lakesweep.certify.promise import BrokenError, NotDecidedError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.certify.uploads import uploaded_address

__all__ = ["PROMISES"]

_SUBJECT = "races"
_MOVES_BEFORE, _MOST_MOVES = 3, 60  # of each user in one round
_KEPT = (
    "In every round, whatever was acknowledged before the list and is still read was in the list or in a commit "
    "read after it."
)


@dataclass(slots=True)
class _Work:
    """What one user does: a thread with branches and random choices of its own, and what the server acknowledged."""

    lake: ThrowAway
    name: str
    random: Random
    branches: Sequence[str]
    acknowledged: set[str] = field(default_factory=set)  # only ever added to, by this user's thread
    paths: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def upload(self) -> None:
        place = (self.random.choice(self.branches), f"{self.random.randrange(6)}")
        content = f"{self.random.random()}".encode()
        self.acknowledged.add(self.lake.upload(*place, content))
        self.paths.append(place)

    def _new_path(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"

    def delete(self) -> None:
        if self.paths:
            self.lake.delete(*self.paths.pop(self.random.randrange(len(self.paths))))

    def commit(self) -> None:
        self.lake.commit(self.random.choice(self.branches), "beside the list")

    def rename(self) -> None:
        """A copy within the branch, then a delete of its source, as clients rename."""
        if not self.paths:
            return
        branch, path = self.paths.pop(self.random.randrange(len(self.paths)))
        target = self._new_path()
        with suppress(NotOfferedError):  # the other user of the branch has deleted the source
            self.acknowledged.add(self.lake.copy(branch, path, target))
            self.lake.delete(branch, path)
            self.paths.append((branch, target))

    def link(self) -> None:
        branch, path = self.random.choice(self.branches), self._new_path()
        address = uploaded_address(self.lake, branch, path)
        if self.lake.link(branch, path, address).status_code < 300:
            self.acknowledged.add(self.lake.relative(address))

    def come_and_go(self) -> None:
        """A branch that is made, written to, and deleted."""
        name = self.lake.branch(f"{self.branches[0]}-zz-{self._new_path()}")
        self.lake.upload(name, "short-lived")
        self.lake.drop_branch(name)

    def merge(self) -> None:
        source, target = self.random.sample(list(self.branches), 2)
        self.lake.commit(target, "clean before a merge")
        self.lake.ask("POST", "refs", source, "merge", target, body={"strategy": "source-wins"})

    def revert(self) -> None:
        branch = self.random.choice(self.branches)
        self.lake.commit(branch, "clean before a revert")
        body = {"ref": f"{branch}~1", "parent_number": 1, "allow_empty": True}
        self.lake.ask("POST", "branches", branch, "revert", body=body)


_Move = Callable[[_Work], None]


def _race(lake: ThrowAway, name: str, moves: Sequence[_Move], users: int = 3) -> str:
    """Rounds of users at work beside a collector's reading, on branches that two users share; nobody touches a last one."""
    random = lake.random(name)
    branches = [lake.branch(f"{name}-{n}") for n in range(users)]
    works = [
        _Work(lake, f"user-{n}", Random(random.random()), [branches[n], branches[(n + 1) % users]])
        for n in range(users)
    ]
    still = lake.branch(f"{name}-still")
    for number in range(lake.rounds):
        for work in works:
            work.upload()  # something to delete, rename and keep
        witness = lake.upload(still, f"{number}")
        seen = _one_round(lake, works, moves)
        live = {a for branch in (*branches, still) for a in _read_by(lake, branch)}
        if ((seen.acknowledged | {witness}) & live) - seen.found:
            raise BrokenError(
                "An address that was acknowledged before the list, and is still read, was neither in the list nor in "
                "a commit read after it."
            )
    return _KEPT


@dataclass(frozen=True, slots=True)
class _Round:
    acknowledged: set[str]  # before the list began
    found: set[str]  # in the list, and in commits read after it


def _one_round(lake: ThrowAway, works: Sequence[_Work], moves: Sequence[_Move]) -> _Round:
    stop, warm = threading.Event(), threading.Barrier(len(works) + 1)

    def work_on(work: _Work) -> None:
        with suppress(threading.BrokenBarrierError):  # somebody else has failed, and says why
            moves_of(work)

    def moves_of(work: _Work) -> None:
        try:
            for number in range(_MOST_MOVES):
                if number == _MOVES_BEFORE:
                    warm.wait()
                if number >= _MOVES_BEFORE and stop.is_set():
                    return
                with suppress(NotDecidedError):  # refused: two users were at one branch
                    work.random.choice(moves)(work)
        finally:
            warm.abort()  # nobody waits for a user who has left

    acknowledged, found = set[str](), set[str]()
    with ThreadPoolExecutor(len(works)) as threads:
        running = [threads.submit(work_on, work) for work in works]
        try:
            with suppress(threading.BrokenBarrierError):
                warm.wait()
                acknowledged = {address for work in works for address in list(work.acknowledged)}
                found = lake.uncommitted() | committed_addresses(lake)
        finally:
            stop.set()
            warm.abort()
        for user in running:
            user.result()
    return _Round(acknowledged, found)


def _read_by(lake: ThrowAway, branch: str) -> set[str]:
    entries = lake.client.list_objects(lake.name, branch)
    return {lake.relative(entry.physical_address) for entry in entries}


@promise(
    _SUBJECT,
    "commits beside the list",
    needed=True,
    without="What is committed while the list is made falls between list and commits, and is deleted.",
)
def commits_beside_the_list(lake: ThrowAway) -> str:
    """Three users upload, delete and commit on shared branches while the uncommitted list is taken, then all commits."""
    return _race(lake, "race-commit", [_Work.upload, _Work.upload, _Work.delete, _Work.commit])


@promise(
    _SUBJECT,
    "renames beside the list",
    needed=True,
    without="What is renamed while the list is made is looked for where it no longer is, and deleted.",
)
def renames_beside_the_list(lake: ThrowAway) -> str:
    """Three users upload, and rename by copy and delete, while the uncommitted list is taken, then all commits."""
    return _race(lake, "race-rename", [_Work.upload, _Work.rename, _Work.rename, _Work.commit])


@promise(
    _SUBJECT,
    "links beside the list",
    needed=True,
    without="What is linked while the list is made falls out of it, and is deleted.",
)
def links_beside_the_list(lake: ThrowAway) -> str:
    """Three users link issued addresses and commit while the uncommitted list is taken, then all commits."""
    return _race(lake, "race-link", [_Work.link, _Work.link, _Work.upload, _Work.commit])


@promise(
    _SUBJECT,
    "branches that come and go",
    without="Rows of other branches are lost with a branch that goes while it is listed. lakesweep takes an empty page "
    "again when a branch went away meanwhile, and refuses to go on when that does not help.",
)
def branches_come_and_go(lake: ThrowAway) -> str:
    """Three users stage objects and make and delete branches while the uncommitted list is taken, then all commits."""
    return _race(
        lake, "race-branch", [_Work.upload, _Work.come_and_go, _Work.come_and_go, _Work.come_and_go]
    )


@promise(
    _SUBJECT,
    "merges and reverts beside the list",
    needed=True,
    without="What comes back while commits are read is in none that was read, and is deleted.",
)
def merges_beside_the_list(lake: ThrowAway) -> str:
    """Three users upload, merge and revert while the uncommitted list is taken, then all commits."""
    return _race(lake, "race-merge", [_Work.upload, _Work.delete, _Work.merge, _Work.revert])


@promise(
    _SUBJECT,
    "one token, many links at once",
    without="A token is good for more than one use when it is used at the same moment.",
)
def one_token_many_links(lake: ThrowAway) -> str:
    """Four users link one issued address to one path at the same moment, in every round."""
    branch = lake.branch("race-token")
    for number in range(lake.rounds):
        path = f"{number}"
        address = uploaded_address(lake, branch, path)
        at_once = threading.Barrier(4)

        def link(
            path: str = path, address: str = address, at_once: threading.Barrier = at_once
        ) -> int:
            at_once.wait()
            return lake.link(branch, path, address).status_code

        with ThreadPoolExecutor(4) as threads:
            statuses = [done.result() for done in [threads.submit(link) for _ in range(4)]]
        accepted = sum(status < 300 for status in statuses)
        if accepted == 0:
            raise NotOfferedError("The server links no issued address.")
        if accepted > 1:
            raise BrokenError("More than one of them is accepted.")
    return "Exactly one is accepted."


PROMISES = (
    *(commits_beside_the_list, renames_beside_the_list, links_beside_the_list),
    *(branches_come_and_go, merges_beside_the_list, one_token_many_links),
)
