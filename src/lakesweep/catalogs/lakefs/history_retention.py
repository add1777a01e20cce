"""Which commits are retained, and by how many days, over columns of commits.

The rules stand in `domain/retention.py`, where each is one page of plain Python; here they run over a million commits in
a fraction of a second. A property test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_walk import (
    NOBODY,
    Bools,
    Ints,
    pass_down,
    retain_parents,
)
from lakesweep.domain.commits import BranchHead, BranchId, CommitId, HeadMove
from lakesweep.domain.retention import assert_all_known
from lakesweep.domain.rules import RetentionRules
from lakesweep.domain.what_if import NEVER_KEPT
from lakesweep.formats.commit_columns import microseconds, texts

__all__ = ["LeastDays", "find_retained", "least_days", "least_days_on_branch"]

_DAY = 86_400_000_000
_BEGINNING = microseconds(datetime.min.replace(tzinfo=UTC))
_END = microseconds(datetime.max.replace(tzinfo=UTC))
# Beyond the calendar: so many days retain everything, and so many below zero nothing.
_FOR_EVER = 10**9
_UNSET = np.iinfo(np.int64).max
_NEVER = np.iinfo(np.int64).min


def find_retained(
    history: History,
    heads: Sequence[BranchHead],
    rules: RetentionRules | None,
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> Bools:
    """Whether each commit is retained: `retained_commits` of the domain, with its arguments and its errors."""
    starts = _Starts.of(history, heads, head_moves, keep)
    if rules is None:
        return np.ones(len(history), np.bool_)
    at = microseconds(now)

    def threshold(days: int) -> int:
        return min(max(at - days * _DAY, _BEGINNING), _END)

    dates = history.columns.dates
    is_retained = np.zeros(len(history), np.bool_)
    is_retained[starts.heads] = True
    is_retained[starts.kept] = True
    thresholds = np.full(len(history), _UNSET)
    of_heads = [threshold(rules.days_for(head.id)) for head in heads]
    np.minimum.at(thresholds, starts.heads, np.array(of_heads, np.int64))
    of_moves = np.array(
        [threshold(rules.days_for(move.branch_id)) for move in starts.moves], np.int64
    )
    np.minimum.at(thresholds, starts.moved, of_moves)
    is_retained[starts.moved[starts.moved_until > of_moves]] = True
    default = threshold(rules.default_retention_days)
    dangling = starts.dangling
    thresholds[dangling] = np.minimum(thresholds[dangling], default)
    is_retained[dangling[dates[dangling] > default]] = True
    retain_parents(history.children_first, history.main_parents, dates, thresholds, is_retained)
    return is_retained


@dataclass(frozen=True, slots=True, eq=False)
class LeastDays:
    """For each commit the smallest number of days that retains it, and the number of a branch whose history has it.

    0 days: it is retained whatever the days. `branches` has the names; the last one, None, is of commits on no branch.
    """

    days: Ints
    owners: Ints
    branches: tuple[BranchId | None, ...]


def least_days(
    history: History,
    heads: Sequence[BranchHead],
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> LeastDays:
    """The smallest number of days that retains each commit, where all branches and the default have that number.

    Of several branches that have a commit, the first in `heads` is named, and one that was deleted or moved only where no
    other is. Arguments are those of `find_retained`.
    """
    starts = _Starts.of(history, heads, head_moves, keep)
    moved_branches = sorted(move.branch_id for move in starts.moves)
    names = dict.fromkeys([*(head.id for head in heads), *moved_branches])
    branches: tuple[BranchId | None, ...] = (*names, None)
    ranks = {branch_id: rank for rank, branch_id in enumerate(branches)}
    owners = np.full(len(history), NOBODY)
    until = np.full(len(history), _NEVER)
    np.minimum.at(owners, starts.heads, np.array([ranks[h.id] for h in heads], np.int64))
    of_moves = np.array([ranks[move.branch_id] for move in starts.moves], np.int64)
    np.minimum.at(owners, starts.moved, of_moves)
    np.maximum.at(until, starts.moved, starts.moved_until)
    dangling, dates = starts.dangling, history.columns.dates
    owners[dangling] = np.minimum(owners[dangling], ranks[None])
    until[dangling] = np.maximum(until[dangling], dates[dangling])
    pass_down(history.children_first, history.main_parents, dates, owners, until)
    days = _days_back_to(until, now)
    days[starts.heads] = 0
    days[starts.kept] = 0
    return LeastDays(days, owners, branches)


def least_days_on_branch(
    history: History,
    heads: Sequence[BranchHead],
    rules: RetentionRules | None,
    branch_id: BranchId,
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> Ints:
    """For each commit the smallest number of days of this branch that retains it, other rules being as they are.

    0: it is retained whatever the branch's days. `NEVER_KEPT`: by no number of them. Without rules, all other branches
    keep everything.
    """
    moves = list(head_moves)
    others = rules or RetentionRules(_FOR_EVER)
    days_now = {**others.branch_retention_days, branch_id: -_FOR_EVER}
    without = replace(others, branch_retention_days=days_now)
    by_others = find_retained(history, heads, without, now, moves, keep)
    starts = _Starts.of(
        history,
        [head for head in heads if head.id == branch_id],
        [move for move in moves if move.branch_id == branch_id],
        (),
    )
    owners = np.full(len(history), NOBODY)
    until = np.full(len(history), _NEVER)
    owners[starts.heads] = 0
    owners[starts.moved] = 0
    np.maximum.at(until, starts.moved, starts.moved_until)
    dates = history.columns.dates
    pass_down(history.children_first, history.main_parents, dates, owners, until)
    return np.where(by_others, 0, _days_back_to(until, now))


@dataclass(frozen=True, slots=True, eq=False)
class _Starts:
    """Rows at which paths start, by what starts them."""

    heads: Ints
    kept: Ints
    moves: list[HeadMove]
    moved: Ints
    moved_until: Ints
    dangling: Ints  # leaves that no branch points at

    @classmethod
    def of(
        cls,
        history: History,
        heads: Sequence[BranchHead],
        head_moves: Iterable[HeadMove],
        keep: Iterable[CommitId],
    ) -> _Starts:
        """Raises UnsafeToSweepError where the history lacks a commit that any of these, or another commit, names."""
        order = history.children_first  # refuses a graph with parents missing, or a cycle
        is_dangling = np.ones(len(order), np.bool_)
        is_dangling[history.main_parents[history.main_parents >= 0]] = False
        moves, kept = list(head_moves), list(keep)
        rows = [
            history.rows_of(texts(ids))
            for ids in (
                [head.commit_id for head in heads],
                kept,
                [move.commit_id for move in moves],
            )
        ]
        if any((some < 0).any() for some in rows):
            assert_all_known(history, heads, moves, kept)
        is_dangling[rows[0]] = False
        until = np.array([microseconds(move.until) for move in moves], np.int64)
        return cls(rows[0], rows[1], moves, rows[2], until, np.flatnonzero(is_dangling))


def _days_back_to(until: Ints, now: datetime) -> Ints:
    """The smallest numbers of days, counted back from `now`, that lead to before each time."""
    known = np.maximum(until, _BEGINNING)
    days = np.maximum(0, (microseconds(now) - known) // _DAY + 1)
    return np.where(until <= _BEGINNING, NEVER_KEPT, days)  # nothing is before the beginning
