"""All commits of a repository in columns, linked to each other."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakesweep.catalogs.lakefs.history_walk import Ints, Rows, order_children_first
from lakesweep.domain.commits import PARENT_ORDER_SWITCH_VERSION, Commit, CommitId, MetaRangeId
from lakesweep.domain.retention import graph_has_cycle, graph_is_incomplete
from lakesweep.formats.commit_columns import CommitColumns, Ids, texts

__all__ = ["History"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_THERE = -1


class History:
    """All commits of a repository, dangling ones included: a row for each, in the order of their ids.

    Objects are made of few of them, one by one. What is asked of all is asked of the columns.
    """

    def __init__(self, columns: CommitColumns) -> None:
        self.columns = _in_order(columns)
        self._words = _first_words(self.columns.ids)

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> History:
        """The history that these commits make."""
        return cls(CommitColumns.of_commits(commits))

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, commit_id: object) -> bool:
        return bool(self.rows_of(texts([str(commit_id)]))[0] != _NOT_THERE)

    def with_commits(self, commits: Iterable[Commit]) -> History:
        """The history with more commits."""
        return History(CommitColumns.joined([self.columns, CommitColumns.of_commits(commits)]))

    def meta_range_id(self, commit_id: CommitId) -> MetaRangeId | None:
        """The metarange of a commit; None where the history does not hold the commit."""
        row = self.rows_of(texts([commit_id]))[0]
        return None if row == _NOT_THERE else MetaRangeId(self.columns.meta_range_ids[row].decode())

    def made_at(self, commit_id: CommitId) -> datetime:
        """When a commit was made. Raises KeyError."""
        row = self.rows_of(texts([commit_id]))[0]
        if row == _NOT_THERE:
            raise KeyError(commit_id)
        return self.date(row)

    def date(self, row: int) -> datetime:
        """When the commit of a row was made."""
        return _EPOCH + timedelta(microseconds=int(self.columns.dates[row]))

    def id(self, row: int) -> CommitId:
        """The id of a row's commit."""
        return CommitId(self.columns.ids[row].decode())

    def parents(self, row: int) -> tuple[CommitId, ...]:
        """The parents of a row's commit, in the order in which it lists them."""
        end = self._parent_ends[row]
        start = end - self.columns.parent_counts[row]
        return tuple(CommitId(raw.decode()) for raw in self.columns.parent_ids[start:end])

    def main_parent(self, row: int) -> CommitId | None:
        """The parent that a row's commit superseded."""
        parents = self.parents(row)
        is_first = self.columns.versions[row] >= PARENT_ORDER_SWITCH_VERSION
        return parents[0 if is_first else -1] if parents else None

    def rows_of(self, ids: Ids) -> Ints:
        """The row of each commit; -1 for one that the history does not hold."""
        own = self.columns.ids
        if not len(own):
            return np.full(len(ids), _NOT_THERE, np.int64)
        last = len(own) - 1
        rows = np.minimum(np.searchsorted(self._words, _first_words(ids)), last)
        # Words are quick to search, and almost always enough.
        others = np.flatnonzero(own[rows] != ids)
        exact = np.minimum(np.searchsorted(own, ids[others]), last)
        rows[others] = np.where(own[exact] == ids[others], exact, _NOT_THERE)
        return rows

    @cached_property
    def _parent_ends(self) -> Ints:
        return self.columns.parent_ends

    @cached_property
    def main_parents(self) -> Rows:
        """The row of each commit's main parent, -1 where it has none.

        Raises:
            UnsafeToSweepError: a commit names a parent, by whichever line, that the history does not hold.
        """
        columns, ends = self.columns, self._parent_ends
        parents = self.rows_of(columns.parent_ids)
        unknown = np.flatnonzero(parents == _NOT_THERE)
        if len(unknown):
            child = self.id(int(np.searchsorted(ends, unknown[0], side="right")))
            parent = columns.parent_ids[unknown[0]].decode()
            raise graph_is_incomplete(f"commit {child} names a parent {parent}")
        is_first = columns.versions >= PARENT_ORDER_SWITCH_VERSION
        main = np.where(is_first, ends - columns.parent_counts, ends - 1)
        has_parent = columns.parent_counts > 0
        found = np.full(len(self), _NOT_THERE, np.int32)
        found[has_parent] = parents[main[has_parent]]
        return found

    @cached_property
    def children_first(self) -> Rows:
        """All rows, each after those whose main parent it is.

        Generations would give the same order, but they are the server's word; the links are the truth.

        Raises:
            UnsafeToSweepError: a parent is missing, or commits descend from themselves.
        """
        order = np.empty(len(self), np.int32)
        if order_children_first(self.main_parents, np.zeros_like(order), order) != len(order):
            raise graph_has_cycle()
        return order


def _in_order(columns: CommitColumns) -> CommitColumns:
    """The rows in the order of their ids, each id once: of several rows the last counts."""
    ids = columns.ids
    if (ids[1:] > ids[:-1]).all():  # as dumps are
        return columns
    order = np.argsort(ids, kind="stable")
    is_last = np.append(ids[order][1:] != ids[order][:-1], True)
    return columns.take(order[is_last])


def _first_words(ids: Ids) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each id as a number; numbers are in the order of their ids."""
    width = ids.dtype.itemsize // 8
    words = np.ascontiguousarray(ids).view(">u8").reshape(len(ids), width)
    return words[:, 0].astype(np.uint64)
