"""The meeting of a what-if: every listed object with all that keeps it, added up by days, owner, folder, age and size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.collector.judge import candidates as cand
from lakesweep.collector.judge import references as refs
from lakesweep.collector.judge.columns import last_events
from lakesweep.collector.judge.row_format import Mask
from lakesweep.collector.lakefs.references import COUNTS_SCHEMA
from lakesweep.collector.lakefs.what_if import kept_references as kept
from lakesweep.collector.lakefs.what_if.keeping import Ints, KeepingClasses
from lakesweep.collector.lakefs.what_if.listed_sizes import LISTED_COUNTS, LISTED_ROWS
from lakesweep.engine.cells import (
    Hashes,
    is_in,
    pack_stream,
    packed_stream,
    unpack_hashes,
    unpack_rows,
)

__all__ = ["AGES", "FATES_SCHEMA", "SIZES", "TALLIES", "Dimension", "Fate", "FateMeeting", "Fates"]


class Fate(IntEnum):
    """What becomes of an object. One that is DATED is kept by some numbers of days."""

    LIVE = 0
    YOUNG = 1
    GONE = 2  # our runs deleted it; a mark of committed data does not look for it again
    UNREFERENCED = 3
    DATED = 4


class Dimension(IntEnum):
    """What a tally is grouped by. Of a FATE the group is the fate, of a QUESTION its number."""

    FATE = 0
    QUESTION = 1
    OWNER = 2
    FOLDER = 3
    AGE = 4
    SIZE = 5


# Upper bounds (exclusive) of the classes; the last class has none.
AGES = (timedelta(days=1), *(timedelta(days=days) for days in (7, 30, 90, 365)))
SIZES = (2**16, 2**20, 2**24, 2**27, 2**30)

TALLIES = pa.schema(
    [
        pa.field("dimension", pa.int64()),
        pa.field("group", pa.uint64()),
        pa.field(
            "days", pa.int64()
        ),  # the least that keep these objects; 0 where days do not matter
        pa.field("is_at_root", pa.bool_()),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)

FATES_SCHEMA = pa.schema(
    [
        pa.field("tallies", pa.binary()),  # Arrow streams, these four
        pa.field("reference_counts", pa.binary()),
        pa.field("kept_counts", pa.binary()),
        pa.field("listed_counts", pa.binary()),
        pa.field("live_references", pa.int64()),
        pa.field("kept_references", pa.int64()),
        pa.field("events", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("row_bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Fates:
    """The objects of one partition, and what becomes of each. The last three are of the DATED ones, in their order."""

    hashes: Hashes
    sizes: Ints
    modified: Ints  # microseconds
    is_at_root: Mask
    fates: npt.NDArray[np.int64]
    least_days: Ints  # a column for each question
    owners: Ints
    folders: Hashes

    @property
    def is_dated(self) -> Mask:
        is_dated: Mask = self.fates == Fate.DATED
        return is_dated


@dataclass(frozen=True, slots=True)
class FateMeeting:
    """Decides what becomes of each listed object of a partition, and sums it up. Picklable: Spark calls it per partition."""

    classes: KeepingClasses
    cutoff: datetime  # what was written before it may go
    now: datetime
    leave_gone: bool  # objects that our runs deleted, and that are there again, do not count

    def __call__(self, references: pa.Table, listed: pa.Table) -> pa.Table:
        """Judge one partition; returns its sums as one row."""
        found = self.fates(references, listed)
        result = {
            "tallies": pack_stream(self._tallies(found)),
            "reference_counts": packed_stream(references, refs.COUNTS, COUNTS_SCHEMA),
            "kept_counts": packed_stream(references, kept.KEPT_COUNTS, kept.KEPT_COUNTS_SCHEMA),
            "listed_counts": packed_stream(listed, cand.COUNTS, LISTED_COUNTS),
            "live_references": len(unpack_hashes(references, refs.LIVE)),
            "kept_references": unpack_rows(references, kept.KEPT, kept.KEPT_ROWS).num_rows,
            "events": last_events(references, self.cutoff).count,
            "rows": len(found.hashes),
            "row_bytes": int(found.sizes.sum()),
        }
        return pa.Table.from_pylist([result], schema=FATES_SCHEMA)

    def fates(self, references: pa.Table, listed: pa.Table) -> Fates:
        """What becomes of each object, by the rules of `domain/verdicts.py`."""
        rows = unpack_rows(listed, cand.ROWS, LISTED_ROWS).combine_chunks()
        hashes: Hashes = rows.column("hash").to_numpy()
        has_time = rows.column("last_modified").is_valid().to_numpy()
        modified = rows.column("last_modified").cast(pa.int64()).fill_null(0).to_numpy()
        events = last_events(references, self.cutoff)
        is_live = is_in(hashes, np.sort(unpack_hashes(references, refs.LIVE)))
        is_young = ~has_time | (modified >= _microseconds(self.cutoff))
        is_young |= is_in(hashes, events.lately_restored)
        is_gone = is_in(hashes, events.gone) & self.leave_gone
        fates = np.select(
            [is_live, is_gone, is_young],
            [Fate.LIVE, Fate.GONE, Fate.YOUNG],
            Fate.UNREFERENCED,
        ).astype(np.int64)
        rest = np.flatnonzero(fates == Fate.UNREFERENCED)
        held, least_days, owners, folders = self._kept(references, np.sort(hashes[rest]))
        # `held` is in order, so each object finds its row.
        at = np.searchsorted(held, hashes[rest])
        at[at == len(held)] = 0
        is_dated = held[at] == hashes[rest] if len(held) else np.zeros(len(rest), dtype=bool)
        fates[rest[is_dated]] = Fate.DATED
        at = at[is_dated]
        return Fates(
            hashes,
            rows.column("size_bytes").fill_null(0).to_numpy(),
            modified,
            rows.column("is_at_root").to_numpy(),
            fates,
            least_days[at],
            owners[at],
            folders[at],
        )

    def _kept(self, references: pa.Table, wanted: Hashes) -> tuple[Hashes, Ints, Ints, Hashes]:
        """Of the wanted hashes those that a commit holds, in order: least days by question, owner and folder."""
        rows = unpack_rows(references, kept.KEPT, kept.KEPT_ROWS)
        columns = [rows.column(name).to_numpy() for name in KEPT_COLUMNS]
        # Most of what old commits hold is live, so few rows are left to be put in order.
        chosen = is_in(columns[0], wanted)
        hashes, keeping, folders = (column[chosen] for column in columns)
        order = np.lexsort((folders, self.classes.ranks[keeping], hashes))
        hashes, keeping, folders = hashes[order], keeping[order], folders[order]
        is_first = np.ones(len(hashes), dtype=bool)
        is_first[1:] = hashes[1:] != hashes[:-1]
        starts = np.flatnonzero(is_first)
        least_days, owners = self.classes.least(keeping, starts)
        return hashes[starts], least_days, owners, folders[starts]

    def _tallies(self, found: Fates) -> pa.RecordBatch:
        dated = found.is_dated
        sums = [
            _sums(Dimension.FATE, found.fates, None, found.is_at_root, found.sizes),
        ]
        sizes, is_at_root = found.sizes[dated], found.is_at_root[dated]
        for number in range(found.least_days.shape[1]):
            question = np.full(len(sizes), number)
            days = found.least_days[:, number]
            sums.append(_sums(Dimension.QUESTION, question, days, is_at_root, sizes))
        ages = _microseconds(self.now) - found.modified[dated]
        age_bounds = [age // timedelta(microseconds=1) for age in AGES]
        days = found.least_days[:, 0]
        for dimension, groups in (
            (Dimension.OWNER, found.owners),
            (Dimension.FOLDER, found.folders),
            (Dimension.AGE, np.searchsorted(age_bounds, ages, side="right")),
            (Dimension.SIZE, np.searchsorted(SIZES, sizes, side="right")),
        ):
            sums.append(_sums(dimension, groups, days, is_at_root, sizes))
        return pa.concat_batches(sums)  # also of a partition without any object


KEPT_COLUMNS = ("hash", "keeping", "folder")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _sums(
    dimension: Dimension,
    groups: npt.NDArray[np.int64] | Hashes,
    days: Ints | None,
    is_at_root: Mask,
    sizes: Ints,
) -> pa.RecordBatch:
    """Objects and bytes by group and days, as rows of TALLIES."""
    unordered = np.zeros(len(groups), np.int64) if days is None else days
    order = np.lexsort((is_at_root, unordered, groups))
    ids, least, at_root = groups[order].astype(np.uint64), unordered[order], is_at_root[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (ids[1:] != ids[:-1]) | (least[1:] != least[:-1]) | (at_root[1:] != at_root[:-1])
    starts = np.flatnonzero(is_first)
    objects = np.diff(np.append(starts, len(order)))
    size = np.add.reduceat(sizes[order], starts) if len(starts) else sizes[:0]
    columns = [np.full(len(starts), dimension), ids[starts], least[starts], at_root[starts]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in (*columns, objects, size)], schema=TALLIES
    )
