"""Until when each commit keeps its objects, if nothing changes.

`retained_commits` answers for one moment. Its rule compares the time at which a commit was superseded with `now` minus
the days of a branch, strictly: a commit is retained before that time plus the days, and not from then on. So every
commit has one instant at which its retention ends, whatever the time is now: the latest of all paths through it.

A property test holds both rules against each other, at every instant and just before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakesweep.domain.commits import BranchHead, BranchId, CommitGraph, CommitId, HeadMove
from lakesweep.domain.retention import (
    RetainedBecause,
    RetentionCause,
    assert_all_known,
    children_first,
)
from lakesweep.domain.rules import RetentionRules

__all__ = ["RetentionEnd", "retention_ends"]

_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RetentionEnd:
    """The first instant at which a commit is no longer retained, and the reason that holds it longest.

    `at` is None for a commit that stays for as long as nothing changes: a head, a kept ref, or any commit of a
    repository without rules. It lies in the past for a commit that has expired.
    """

    at: datetime | None
    because: RetainedBecause

    def is_retained(self, now: datetime) -> bool:
        """Whether a mark at this time retains the commit."""
        return self.at is None or now < self.at


def retention_ends(
    graph: CommitGraph,
    heads: Sequence[BranchHead],
    rules: RetentionRules | None,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> dict[CommitId, RetentionEnd]:
    """For every commit of the graph the end of its retention, with the arguments of `retained_commits`.

    Raises:
        UnsafeToSweepError: the graph lacks a commit that a branch, a move, a root or another commit names.
    """
    order = children_first(graph)
    moves, kept = list(head_moves), list(keep)
    assert_all_known(graph, heads, moves, kept)
    if rules is None:
        for_ever = RetentionEnd(None, RetainedBecause(RetentionCause.NO_RULES))
        return {commit.id: for_ever for commit in order}

    ends = _Ends(rules)
    for head in heads:
        ends.start(head.commit_id, head.id)
        ends.hold_for_ever(head.commit_id, RetainedBecause(RetentionCause.HEAD, head.id))
    for commit_id in kept:
        ends.hold_for_ever(commit_id, RetainedBecause(RetentionCause.KEPT_REF))
    for move in moves:
        ends.start(move.commit_id, move.branch_id)
        because = RetainedBecause(RetentionCause.WAS_HEAD, move.branch_id, move.until)
        ends.hold(move.commit_id, move.until, ends.days(move.branch_id), because)

    on_branches = {head.commit_id for head in heads}
    superseded = {commit.main_parent for commit in order}
    for commit in order:
        made = commit.creation_date
        if commit.id not in superseded and commit.id not in on_branches:
            ends.start(commit.id, None)
            because = RetainedBecause(RetentionCause.DANGLING_RECENT, until=made)
            ends.hold(commit.id, made, ends.days(None), because)
        days, branch_id = ends.longest[commit.id]
        parent = commit.main_parent
        if parent is None:
            continue
        ends.pass_through(parent, days, branch_id)
        cause = (
            RetentionCause.DANGLING_SUPERSEDED_RECENTLY
            if branch_id is None
            else RetentionCause.SUPERSEDED_RECENTLY
        )
        ends.hold(parent, made, days, RetainedBecause(cause, branch_id, made))
    return ends.found


class _Ends:
    """For every commit the most days of the paths through it, and the latest end so far."""

    def __init__(self, rules: RetentionRules) -> None:
        self._rules = rules
        self.longest: dict[CommitId, tuple[int, BranchId | None]] = {}
        self.found: dict[CommitId, RetentionEnd] = {}

    def days(self, branch_id: BranchId | None) -> int:
        """The branch's days; the default days for None."""
        rules = self._rules
        return rules.default_retention_days if branch_id is None else rules.days_for(branch_id)

    def start(self, commit_id: CommitId, branch_id: BranchId | None) -> None:
        """A path of this branch starts at the commit."""
        self.pass_through(commit_id, self.days(branch_id), branch_id)

    def pass_through(self, commit_id: CommitId, days: int, branch_id: BranchId | None) -> None:
        """A path with these days passes through the commit."""
        known = self.longest.get(commit_id)
        if known is None or days > known[0]:
            self.longest[commit_id] = (days, branch_id)

    def hold_for_ever(self, commit_id: CommitId, because: RetainedBecause) -> None:
        """The commit stays; the first such reason counts."""
        known = self.found.get(commit_id)
        if known is None or known.at is not None:
            self.found[commit_id] = RetentionEnd(None, because)

    def hold(
        self, commit_id: CommitId, since: datetime, days: int, because: RetainedBecause
    ) -> None:
        """The commit stays until so many days after it was superseded; the latest end counts."""
        at = _days_after(since, days)
        if at is None:
            self.hold_for_ever(commit_id, because)
            return
        known = self.found.get(commit_id)
        if known is None or (known.at is not None and at > known.at):
            self.found[commit_id] = RetentionEnd(at, because)


def _days_after(time: datetime, days: int) -> datetime | None:
    """A time some days later. None: later than the calendar goes; a time before the calendar is its first moment."""
    try:
        return time + timedelta(days=days)
    except OverflowError:
        return None if days > 0 else _BEGINNING
