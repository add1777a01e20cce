"""Writing metaranges: records in path order, cut into ranges, ranges that did not change taken over by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.domain.commits import MetaRangeId
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.formats.range_writer import RangeWriter
from lakesweep.formats.sstable import Records
from lakesweep.lake.commits.committed import Committed, metadata_key
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.staging.staged_values import TOMBSTONE, has_same_identity
from lakesweep.lake.values import Repository
from lakesweep.storage import ObjectStore

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """A new metarange, and how many of the changes made a difference to the one before."""

    metarange_id: MetaRangeId
    effective_changes: int


class MetarangeWriter:
    """Takes records and whole ranges in key order; every file is in the store before `finish` returns."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._ranges: list[RangeInfo] = []
        self._pending: list[Row] = []
        self._open = RangeWriter()

    def add(self, row: Row) -> None:
        """Add one record."""
        self._pending.append(row)
        if len(self._pending) >= _BATCH_ROWS:
            self._write_pending()

    def reuse(self, info: RangeInfo) -> None:
        """Take over a range as it is."""
        self._write_pending()
        self._close_range()
        self._ranges.append(info)

    def finish(self) -> MetaRangeId:
        """Write what is open, then the metarange."""
        self._write_pending()
        self._close_range()
        metarange_id, data = write_metarange(self._ranges)
        self._store.write(metadata_key(metarange_id), data)
        return metarange_id

    def _write_pending(self) -> None:
        records = Records.from_pairs(self._pending)
        self._pending.clear()
        number = 0
        while number < len(records):
            number = self._open.add_records(records, number)
            if self._open.should_break():
                self._close_range()

    def _close_range(self) -> None:
        if len(self._open):
            written = self._open.finish()
            self._store.write(metadata_key(written.id), written.data)
            self._ranges.append(RangeInfo.of(written))
        self._open = RangeWriter()


def apply_changes(
    committed: Committed,
    store: ObjectStore,
    repository: Repository,
    base: Sequence[RangeInfo],
    changes: Iterable[Row],
    *,
    keeps_equal: bool,
) -> AppliedChanges:
    """Write the metarange that has the changes laid over a base; a tombstone takes its path away.

    Args:
        keeps_equal: where a change has the identity of what is there, keep what is there (its address above all), as
            commits do. Merges take the change.
    """
    writer = MetarangeWriter(store)
    effective = 0
    rows = iter(changes)
    change = next(rows, None)
    for info in base:
        while change is not None and change[0] < info.min_key:
            if change[1] != TOMBSTONE:
                writer.add(change)
                effective += 1
            change = next(rows, None)
        if change is None or change[0] > info.max_key:
            writer.reuse(info)
            continue
        for key, value in committed.table(repository, info).records():
            while change is not None and change[0] < key:
                if change[1] != TOMBSTONE:
                    writer.add(change)
                    effective += 1
                change = next(rows, None)
            if change is None or change[0] != key:
                writer.add((key, value))
                continue
            new_value = change[1]
            if keeps_equal and has_same_identity(new_value, value):
                writer.add((key, value))
            else:
                effective += new_value != value
                if new_value != TOMBSTONE:
                    writer.add(change)
            change = next(rows, None)
    for row in _rest(change, rows):
        if row[1] != TOMBSTONE:
            writer.add(row)
            effective += 1
    return AppliedChanges(writer.finish(), effective)


def _rest(first: Row | None, rows: Iterator[Row]) -> Iterator[Row]:
    if first is not None:
        yield first
        yield from rows
