"""Comparing metaranges: two-way and three-way, passing over ranges that both sides share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakesweep.domain.commits import MetaRangeId
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.lake.commits.committed import Committed, first_range_reaching
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.staging.staged_values import has_same_identity
from lakesweep.lake.values import Repository


class Difference(NamedTuple):
    """A path that two sides do not have alike; None = not there."""

    key: bytes
    left: bytes | None
    right: bytes | None


class ThreeWay(NamedTuple):
    """A path that the source changed since the base, and what the destination has there."""

    key: bytes
    base: bytes | None
    source: bytes | None
    destination: bytes | None
    is_conflict: bool

    @property
    def is_news(self) -> bool:
        """Whether the destination does not have the source's content yet."""
        return not _is_equal(self.destination, self.source)


def differences(
    committed: Committed,
    repository: Repository,
    left_id: MetaRangeId,
    right_id: MetaRangeId,
    start: bytes = b"",
) -> Iterator[Difference]:
    """Paths from `start` on whose content differs, in path order."""
    if left_id == right_id:
        return
    left = _Cursor(committed, repository, left_id, start)
    right = _Cursor(committed, repository, right_id, start)
    while True:
        left_key, right_key = left.key, right.key
        if left_key is None and right_key is None:
            return
        left_range, right_range = left.unopened_range, right.unopened_range
        if left_range is not None and right_range is not None and left_range.id == right_range.id:
            left.skip_range()
            right.skip_range()
        elif right_key is None or (left_key is not None and left_key < right_key):
            key, value = left.take()
            yield Difference(key, value, None)
        elif left_key is None or right_key < left_key:
            key, value = right.take()
            yield Difference(key, None, value)
        else:
            key, left_value = left.take()
            _, right_value = right.take()
            if not has_same_identity(left_value, right_value):
                yield Difference(key, left_value, right_value)


def three_way(
    committed: Committed,
    repository: Repository,
    *,
    base_id: MetaRangeId,
    source_id: MetaRangeId,
    destination_id: MetaRangeId,
    start: bytes = b"",
) -> Iterator[ThreeWay]:
    """What the source changed since the base, in path order; a conflict where the destination changed it otherwise."""
    theirs = differences(committed, repository, base_id, destination_id, start)
    their = next(theirs, None)
    for ours in differences(committed, repository, base_id, source_id, start):
        while their is not None and their.key < ours.key:
            their = next(theirs, None)
        if their is None or their.key != ours.key:
            yield ThreeWay(ours.key, ours.left, ours.right, ours.left, is_conflict=False)
        else:
            is_conflict = not _is_equal(their.right, ours.right)
            yield ThreeWay(ours.key, ours.left, ours.right, their.right, is_conflict=is_conflict)


def _is_equal(left: bytes | None, right: bytes | None) -> bool:
    if left is None or right is None:
        return left is right
    return has_same_identity(left, right)


class _Cursor:
    """A place in a metarange. A range is opened only when a record of it is taken."""

    def __init__(
        self, committed: Committed, repository: Repository, metarange_id: MetaRangeId, start: bytes
    ) -> None:
        self._committed = committed
        self._repository = repository
        self._ranges = committed.ranges(repository, metarange_id)
        self._position = first_range_reaching(self._ranges, start)
        self._rows: Iterator[Row] | None = None
        self._next: Row | None = None
        if self._position < len(self._ranges) and self._ranges[self._position].min_key < start:
            self._open(start)

    @property
    def key(self) -> bytes | None:
        """The path at this place; None at the end."""
        if self._next is not None:
            return self._next[0]
        info = self.unopened_range
        return None if info is None else info.min_key

    @property
    def unopened_range(self) -> RangeInfo | None:
        """The range that begins here, when none of it was taken."""
        if self._next is not None or self._position == len(self._ranges):
            return None
        return self._ranges[self._position]

    def skip_range(self) -> None:
        """Go to the next range without opening this one."""
        self._position += 1

    def take(self) -> Row:
        """The record here; goes on to the next."""
        if self._next is None:
            self._open()
        row = self._next
        assert row is not None
        self._advance()
        return row

    def _open(self, start: bytes = b"") -> None:
        table = self._committed.table(self._repository, self._ranges[self._position])
        self._rows = table.iterate(start) if start else iter(table.records())
        self._advance()

    def _advance(self) -> None:
        assert self._rows is not None
        self._next = next(self._rows, None)
        if self._next is None:
            self._position += 1
