"""The smallest number of days that retains each commit, in plain Python: what the columns of a what-if are held against.

`retained_commits` answers for one set of rules. It compares the time until which a commit was what a branch pointed at
with `now` minus the days, strictly. So with the same number of days for everything, each commit has one smallest number
that retains it, and any larger one does too. Where only the days of one branch change, the rules of the others retain
some commits whatever that number is.

A property test holds both functions against `retained_commits`, for every number of days.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lakesweep.domain.commits import BranchHead, BranchId, CommitGraph, CommitId, HeadMove
from lakesweep.domain.retention import assert_all_known, children_first, retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.domain.what_if import NEVER_KEPT

__all__ = ["LeastDays", "least_days", "least_days_on_branch"]

_DAY = timedelta(days=1)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
# Beyond the calendar: so many days retain everything, and so many below zero nothing.
_FOR_EVER = 10**9


@dataclass(frozen=True, slots=True)
class LeastDays:
    """The smallest number of days that retains a commit, and a branch whose history has it.

    0 days: it is retained whatever the days. The branch is None for a commit that is on none.
    """

    days: int
    branch_id: BranchId | None


def least_days(
    graph: CommitGraph,
    heads: Sequence[BranchHead],
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> dict[CommitId, LeastDays]:
    """For every commit the smallest number of days that retains it, where all branches and the default have that number.

    Of several branches that have a commit, the first in `heads` is named, and one that was deleted or moved only where no
    other is. Arguments are those of `retained_commits`.
    """
    moves, roots = list(head_moves), list(keep)
    assert_all_known(graph, heads, moves, roots)
    until: dict[CommitId, datetime] = {}
    branches: list[BranchId | None] = [
        *dict.fromkeys([*(head.id for head in heads), *sorted(m.branch_id for m in moves)]),
        None,
    ]
    ranks = {branch_id: rank for rank, branch_id in enumerate(branches)}
    owners: dict[CommitId, int] = {}

    def hold(commit_id: CommitId, time: datetime | None, owner: int) -> None:
        owners[commit_id] = min(owner, owners.get(commit_id, owner))
        if time is not None:
            until[commit_id] = max(time, until.get(commit_id, time))

    for head in heads:
        hold(head.commit_id, None, ranks[head.id])
    for move in moves:
        hold(move.commit_id, move.until, ranks[move.branch_id])
    order = children_first(graph)
    superseded = {commit.main_parent for commit in order}
    on_branches = {head.commit_id for head in heads}
    kept = on_branches.union(roots)
    found: dict[CommitId, LeastDays] = {}
    for commit in order:
        if commit.id not in superseded and commit.id not in on_branches:
            hold(commit.id, commit.creation_date, ranks[None])
        owner = owners[commit.id]
        if commit.main_parent is not None:
            hold(commit.main_parent, commit.creation_date, owner)
        days = 0 if commit.id in kept else _days_back_to(until[commit.id], now)
        found[commit.id] = LeastDays(days, branches[owner])
    return found


def least_days_on_branch(
    graph: CommitGraph,
    heads: Sequence[BranchHead],
    rules: RetentionRules | None,
    branch_id: BranchId,
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> dict[CommitId, int]:
    """For every commit the smallest number of days of this branch that retains it, other rules being as they are.

    0: it is retained whatever the branch's days. `NEVER_KEPT`: by no number of them. Without rules, all other branches
    keep everything.
    """
    moves = list(head_moves)
    others = rules or RetentionRules(_FOR_EVER)
    days_now = {**others.branch_retention_days, branch_id: -_FOR_EVER}
    by_others = retained_commits(
        graph, heads, replace(others, branch_retention_days=days_now), now, moves, keep
    )
    until: dict[CommitId, datetime] = {}
    on_path = {head.commit_id for head in heads if head.id == branch_id}
    for move in moves:
        if move.branch_id == branch_id:
            on_path.add(move.commit_id)
            until[move.commit_id] = max(move.until, until.get(move.commit_id, move.until))
    for commit in children_first(graph):
        parent = commit.main_parent
        if commit.id in on_path and parent is not None:
            on_path.add(parent)
            until[parent] = max(commit.creation_date, until.get(parent, commit.creation_date))
    return {
        commit.id: 0
        if commit.id in by_others
        else _days_back_to(until[commit.id], now)
        if commit.id in until
        else NEVER_KEPT
        for commit in graph
    }


def _days_back_to(until: datetime, now: datetime) -> int:
    """The smallest number of days, counted back from `now`, that leads to before a time."""
    if until <= _BEGINNING:
        return NEVER_KEPT  # nothing is before it
    return max(0, (now - until) // _DAY + 1)
