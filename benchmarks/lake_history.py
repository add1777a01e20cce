"""The history of the scenario: commits of many branches in a graph, each with its ranges, and what the rules retain.

Nothing here uses the product's code: which commits are retained is told by walking from every start as the seeds' rule
reads, so that the expected garbage is known without the program that has to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from lake_objects import ENTRIES_PER_RANGE, Indexes, LakeObjects

DEFAULT_DAYS = 30
_MAIN_DAYS, _LONG_LIVED_DAYS, _SHORT_DAYS, _MANY_DAYS = 60, 45, 7, 120
_OLDEST_DAYS = 400
_SHARED_SLOTS = 200  # ranges that all branches have, their own versions of some
_NO_COMMIT = -1


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """A commit: `other` is what it merges in, `state` the version that it has of each of its slots, in path order."""

    branch: int
    at: datetime
    parent: int
    other: int
    state: Indexes


@dataclass(frozen=True, slots=True)
class BranchLife:
    """When a branch made its commits, in days before now, and whether it was deleted since."""

    number: int
    commits: int
    first: float
    last: float
    is_deleted: bool = False
    is_long: bool = False

    @property
    def days(self) -> int | None:
        """The branch's own rule."""
        if self.number == 0:
            return _MAIN_DAYS
        if self.is_long:
            return _LONG_LIVED_DAYS
        return {0: _SHORT_DAYS, 1: _MANY_DAYS}.get(self.number % 7)


@dataclass(frozen=True, slots=True)
class HistoryShape:
    """How large a history is."""

    branches: int
    commits: int
    ranges: int
    shared_slots: int
    own_slots: int  # of all branches together


@dataclass(slots=True)
class History:
    """Versions of slots, commits that hold them, and heads. A version is its slot's base, with some rows replaced."""

    now: datetime
    shape: HistoryShape
    lives: list[BranchLife]
    slots: list[int] = field(default_factory=list)  # of each version
    replacing: dict[int, Indexes] = field(default_factory=dict)  # version → ranks in place of rows
    commits: list[CommitPlan] = field(default_factory=list)
    heads: dict[int, int] = field(default_factory=dict)  # branch → commit
    tags: dict[str, int] = field(default_factory=dict)

    def copy(self) -> History:
        """A history that can go on by itself."""
        return replace(
            self,
            slots=list(self.slots),
            replacing=dict(self.replacing),
            commits=list(self.commits),
            heads=dict(self.heads),
            tags=dict(self.tags),
        )

    # -- slots

    def own_slots(self, branch: int) -> range:
        """Slots that one branch alone has. `main` and deleted branches have none."""
        shape = self.shape
        if not 0 < branch < shape.branches:
            return range(0)
        others = shape.branches - 1
        first, end = (shape.own_slots * part // others for part in (branch - 1, branch))
        return range(shape.shared_slots + first, shape.shared_slots + end)

    def owner(self, slot: int) -> int:
        """The branch that a slot belongs to; `main` for those that all have."""
        own = slot - self.shape.shared_slots
        if own < 0:
            return 0
        branch = own * (self.shape.branches - 1) // self.shape.own_slots + 1
        while slot not in self.own_slots(branch):
            branch += 1
        return branch

    def slot_at(self, branch: int, place: int) -> int:
        """The slot at a place of a branch's commits."""
        shared = self.shape.shared_slots
        return place if place < shared else self.own_slots(branch).start + place - shared

    def new_version(self, slot: int) -> int:
        """Another version of a slot."""
        self.slots.append(slot)
        return len(self.slots) - 1

    # -- commits

    def commit(self, branch: int, at: datetime, state: Indexes, other: int = _NO_COMMIT) -> int:
        """The branch goes on; a new one forks off from `main`."""
        parent = self.heads.get(branch, self.heads.get(0, _NO_COMMIT))
        self.commits.append(CommitPlan(branch, at, parent, other, state))
        self.heads[branch] = len(self.commits) - 1
        return self.heads[branch]

    def state(self, branch: int) -> Indexes:
        """What the head of a branch has."""
        return self.commits[self.heads[branch]].state

    def days(self, branch: int) -> int:
        """The rule for a branch, or for what is on none."""
        return DEFAULT_DAYS if branch < 0 else self.lives[branch].days or DEFAULT_DAYS

    def retained(self, days: Callable[[int], int] | None = None) -> set[int]:
        """Commits that the rules retain, by walking from each head and from each commit that nothing leads to.

        A commit is retained while its child on the way is younger than the days of where the way began.
        """
        days = days or self.days
        kept = set(self.heads.values())
        is_parent = {commit.parent for commit in self.commits}
        for branch, head in self.heads.items():
            kept |= self._within(head, days(branch))
        loose = set(range(len(self.commits))) - is_parent - kept
        for leaf in loose:
            if self.commits[leaf].at > self.now - timedelta(days=days(-1)):
                kept.add(leaf)
            kept |= self._within(leaf, days(-1))
        return kept

    def _within(self, start: int, days: int) -> set[int]:
        begin, found = self.now - timedelta(days=days), set()
        child = self.commits[start]
        # Children are younger than their parents, so the first that is too old ends the way.
        while child.parent != _NO_COMMIT and child.at > begin:
            found.add(child.parent)
            child = self.commits[child.parent]
        return found

    def versions_of(self, commits: Iterable[int]) -> Indexes:
        """Which versions some commits hold."""
        is_held = np.zeros(len(self.slots), np.bool_)
        for commit in commits:
            is_held[self.commits[commit].state] = True
        return np.flatnonzero(is_held)

    def ranks(self, version: int, bases: int) -> Indexes:
        """The objects of a version, in path order. `bases` is how many stretches of base objects there are."""
        first = self.slots[version] % bases * ENTRIES_PER_RANGE
        ranks = np.arange(first, first + ENTRIES_PER_RANGE, dtype=np.int64)
        extra = self.replacing.get(version)
        if extra is not None and len(extra):
            # Evenly through the range, so that no block is spared.
            ranks[np.linspace(0, ENTRIES_PER_RANGE - 1, len(extra)).astype(np.int64)] = extra
        return ranks


@dataclass(frozen=True, slots=True)
class Proportions:
    """Of commits and ranges, how many times as many as the seed has."""

    commits: float = 1.0
    ranges: float = 1.0


def shape_of(objects: LakeObjects, times: Proportions, *, one_commit: bool = False) -> HistoryShape:
    """The seed's proportions, or some times those: of 20M objects, 1K branches, 30K commits, 120K ranges."""
    scale = objects.count / 20_000_000
    seeds = (1_000, 30_000 * times.commits, 120_000 * times.ranges)
    branches, commits, ranges = (max(5, round(n * scale)) for n in seeds)
    if one_commit:
        return HistoryShape(branches, 12, ranges, ranges * 4 // 5, 0)
    shared = min(_SHARED_SLOTS, objects.head_slots // 3)
    return HistoryShape(branches, commits, ranges, shared, objects.head_slots - shared)


def make_history(objects: LakeObjects, times: Proportions, *, one_commit: bool = False) -> History:
    """The graph with all its versions; what they have in place of base objects is dealt out last."""
    shape = shape_of(objects, times, one_commit=one_commit)
    lives = [*_one_line(shape)] if one_commit else [*_lives(shape)]
    history = History(objects.now, shape, lives)
    _make_commits(history)
    for life in lives:
        if life.is_deleted:
            del history.heads[life.number]
    if one_commit:  # all branches are at the one commit
        history.heads |= dict.fromkeys(range(1, shape.branches), history.heads[0])
    _deal_out(history, objects)
    return history


def _one_line(shape: HistoryShape) -> Iterator[BranchLife]:
    yield BranchLife(0, shape.commits - 1, -_OLDEST_DAYS, -2.2)
    for number in range(1, shape.branches):
        yield BranchLife(number, 0, 0, 0)


def _lives(shape: HistoryShape) -> Iterator[BranchLife]:
    """`main`, a few long-lived branches with ten times as many commits as others, short ones, and deleted ones."""
    long_lived, deleted = max(1, shape.branches // 100), max(1, shape.branches // 10)
    short = shape.branches - 1 - long_lived
    each = max(1, shape.commits * 4 // 5 // (10 * long_lived + short + deleted))
    of_main = shape.commits - each * (10 * long_lived + short + deleted) - 1
    yield BranchLife(0, of_main, -_OLDEST_DAYS, -2.2)
    for number in range(1, shape.branches + deleted):
        if number <= long_lived:
            yield BranchLife(number, 10 * each, 5 - _OLDEST_DAYS, -2.3 - number % 30, is_long=True)
            continue
        first = 5 - _OLDEST_DAYS + (_OLDEST_DAYS - 30) * (number * 0.618034 % 1)
        is_deleted = number >= shape.branches
        yield BranchLife(number, each, first, first + 1 + number % 20, is_deleted)


def _make_commits(history: History) -> None:
    shape, lives = history.shape, history.lives
    events = sorted(
        (life.first + (life.last - life.first) * step / max(1, life.commits - 1), life.number)
        for life in lives
        for step in range(life.commits)
    )
    firsts = len({number for _, number in events})
    changes = shape.ranges - shape.own_slots - 2 * shape.shared_slots
    if changes < shape.shared_slots:  # most slots of main stay as they were made
        changes = (shape.ranges - shape.own_slots - shape.shared_slots) * 9 // 10
    of_commit = np.diff(np.arange(len(events) - firsts + 1) * changes // (len(events) - firsts))
    picker, at, step = _Picker(history), history.now - timedelta(days=2 * _OLDEST_DAYS), 0
    left = {life.number: life.commits for life in lives}
    to_merge: list[int] = []
    for days, branch in events:
        at = max(at + timedelta(seconds=1), _away_from_rules(history.now, days))
        left[branch] -= 1
        if branch not in history.heads:
            slots = range(shape.shared_slots) if branch == 0 else history.own_slots(branch)
            fresh = np.array([history.new_version(slot) for slot in slots], np.int64)
            forked = history.state(0)[: shape.shared_slots] if branch else fresh[:0]
            history.commit(branch, at, np.concatenate([forked, fresh]))
        else:
            state, other = _merged(history, branch, to_merge, step)
            for place in picker.places(branch, int(of_commit[step])):
                state[place] = history.new_version(history.slot_at(branch, place))
            history.commit(branch, at, state, other)
            step += 1
        if left[branch] == 0 and branch > 0 and branch % 3 and not lives[branch].is_deleted:
            to_merge.append(branch)
    # The last commit of main has all ranges anew that ever changed, as after a compaction.
    state = history.state(0).copy()
    for slot in np.flatnonzero(state >= shape.shared_slots).tolist():
        state[slot] = history.new_version(slot)
    history.commit(0, _away_from_rules(history.now, -2.1), state)


def _away_from_rules(now: datetime, days: float) -> datetime:
    """A time at least a day from where a rule begins, so that a benchmark of some hours sees nothing expire."""
    for rule in (_MAIN_DAYS, _LONG_LIVED_DAYS, _SHORT_DAYS, _MANY_DAYS, DEFAULT_DAYS):
        if -rule <= days < 1 - rule:
            days = 1 - rule
    return (now + timedelta(days=days)).replace(microsecond=0)


def _merged(history: History, branch: int, to_merge: list[int], step: int) -> tuple[Indexes, int]:
    """The branch's state with what a commit merges in, and the commit it comes from."""
    state, shared = history.state(branch).copy(), history.shape.shared_slots
    if branch == 0 and to_merge:
        other = history.heads[to_merge.pop(0)]
        return np.maximum(state, history.commits[other].state[:shared]), other
    if history.lives[branch].is_long and step % 8 == 0:
        state[:shared] = history.state(0)[:shared]
        return state, history.heads[0]
    return state, _NO_COMMIT


class _Picker:
    """Says which places of a branch's state the next commit changes: its own slots twice as often as shared ones."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._number = 0

    def places(self, branch: int, amount: int) -> list[int]:
        shared, own = self._history.shape.shared_slots, len(self._history.own_slots(branch))
        if (
            not self._history.shape.own_slots
        ):  # few commits of many changes, always in the same place
            return list(range(amount))
        chosen: list[int] = []
        while len(chosen) < min(amount, shared + own):
            self._number += 1
            is_own = own and self._number % 3
            place = shared + self._number * 7 % own if is_own else self._number * 7_919 % shared
            while place in chosen:
                place = (place + 1) % (shared + own)
            chosen.append(place)
        return chosen


def _deal_out(history: History, objects: LakeObjects) -> None:
    """Give versions that are not the last of their slot the objects that only they have, by what holds them."""
    retained = history.retained()
    expired = sorted(set(range(len(history.commits))) - retained)
    _add_tags(history, sorted(retained), expired)
    shared = history.shape.shared_slots
    own = [history.state(branch)[shared:] for branch in history.heads]
    bases = np.unique(np.concatenate([history.state(0), *own]))
    of_retained = history.versions_of(retained)
    of_tags = history.versions_of(history.tags.values())
    every = np.arange(len(history.slots))
    holders = {
        "superseded": np.setdiff1d(of_retained, bases),
        "tagged": np.setdiff1d(of_tags, of_retained),
        "expired": np.setdiff1d(np.setdiff1d(every, of_retained), of_tags),
    }
    for role, versions in holders.items():
        ranks = objects.role(role)
        if len(ranks) > len(versions) * ENTRIES_PER_RANGE // 2:
            raise ValueError(f"{len(ranks)} {role} objects, and {len(versions)} ranges for them")
        for version, some in zip(versions, np.array_split(ranks, len(versions)), strict=True):
            history.replacing[int(version)] = some


def _add_tags(history: History, retained: list[int], expired: list[int]) -> None:
    """Tags on commits of both kinds: those on expired ones keep nothing unless that is asked for."""
    each = max(5, history.shape.branches // 50)
    for kind, commits in (("kept", retained), ("old", expired)):
        for number in range(each):
            place = (2 * number + 1) * len(commits) // (2 * each)
            history.tags[f"{kind}-{number:03d}"] = commits[place]
