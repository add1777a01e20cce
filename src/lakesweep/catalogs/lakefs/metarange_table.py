"""Which ranges metaranges hold, in columns: a long history has millions of pairs of a metarange and a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids, Ints, texts
from lakesweep.formats.metaranges import RangeCounts

__all__ = ["NO_METARANGES", "TABLE_SCHEMA", "MetarangeTable", "counts_agree", "merge_counts"]

_ID = np.dtype("S64")
_NO_RANGES = RangeCounts(np.empty(0, _ID), np.empty(0, np.int64))

# A table as one row, for files and for what tasks return.
TABLE_SCHEMA = pa.schema(
    [
        pa.field("metaranges", pa.binary(), nullable=False),
        pa.field("sizes", pa.binary(), nullable=False),
        pa.field("places", pa.binary(), nullable=False),
        pa.field("range_ids", pa.binary(), nullable=False),
        pa.field("counts", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class MetarangeTable:
    """Metaranges, and the ranges that each holds.

    `ranges` has each range once. For each metarange `sizes` says how many ranges it holds; their places in `ranges` stand end to
    end in `places`. `ranges` may have more than the table's metaranges hold, namely those of metaranges that were cut off.
    """

    metaranges: Ids
    sizes: Ints
    places: npt.NDArray[np.int32]
    ranges: RangeCounts

    @classmethod
    def of_metaranges(cls, names: Sequence[str], parts: Sequence[RangeCounts]) -> MetarangeTable:
        """The table of metaranges of which each holds one of the parts. Raises as `merge_counts`."""
        ranges, places = _distinct(parts)
        sizes = np.array([len(part.counts) for part in parts], np.int64)
        return cls(texts(names), sizes, places, ranges)

    @classmethod
    def joined(cls, tables: Sequence[MetarangeTable]) -> MetarangeTable:
        """All metaranges and ranges of the tables. Raises as `merge_counts`."""
        if len(tables) == 1:
            return tables[0]
        tables = [NO_METARANGES, *tables]
        ranges, moved = _distinct([table.ranges for table in tables])
        ends = np.cumsum([len(table.ranges.counts) for table in tables])[:-1]
        shares = zip(np.split(moved, ends), tables, strict=True)
        return cls(
            np.concatenate([table.metaranges for table in tables]),
            np.concatenate([table.sizes for table in tables]),
            np.concatenate([places[table.places] for places, table in shares]),
            ranges,
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> MetarangeTable:
        """The table that `as_row` wrote."""
        return cls(
            np.frombuffer(row["metaranges"], _ID),
            np.frombuffer(row["sizes"], np.int64),
            np.frombuffer(row["places"], np.int32),
            RangeCounts(
                np.frombuffer(row["range_ids"], _ID), np.frombuffer(row["counts"], np.int64)
            ),
        )

    def as_row(self) -> dict[str, bytes]:
        """The columns as bytes, by their names in `TABLE_SCHEMA`."""
        ids, counts = self.ranges.ids, self.ranges.counts
        columns: list[npt.NDArray[Any]] = [self.metaranges, self.sizes, self.places, ids, counts]
        return {
            name: column.tobytes() for name, column in zip(TABLE_SCHEMA.names, columns, strict=True)
        }

    def rows_of(self, asked: Ids) -> Ints:
        """The row of each metarange that is asked for; -1 for one that the table does not have."""
        if asked.dtype != self.metaranges.dtype:
            return np.full(len(asked), -1, np.int64)
        rows = pc.index_in(_as_arrow(asked), value_set=_as_arrow(self.metaranges))
        return np.asarray(rows.fill_null(-1)).astype(np.int64)

    def take(self, rows: Ints) -> MetarangeTable:
        """The metaranges of these rows, in the order of the table, and of the ranges only what they hold."""
        is_taken = np.zeros(len(self.metaranges), bool)
        is_taken[rows] = True
        places = self.places[np.repeat(is_taken, self.sizes)]
        is_held = np.zeros(len(self.ranges.counts), bool)
        is_held[places] = True
        moved = np.cumsum(is_held, dtype=np.int32) - np.int32(1)
        held = RangeCounts(self.ranges.ids[is_held], self.ranges.counts[is_held])
        return MetarangeTable(self.metaranges[is_taken], self.sizes[is_taken], moved[places], held)

    def cut_off(self, most_pairs: int) -> MetarangeTable:
        """The first metaranges that have no more pairs than this in all; the ranges stay, all of them."""
        ends = np.cumsum(self.sizes)
        rows = int(np.searchsorted(ends, most_pairs, side="right")) if most_pairs > 0 else 0
        pairs = int(ends[rows - 1]) if rows else 0
        return MetarangeTable(
            self.metaranges[:rows], self.sizes[:rows], self.places[:pairs], self.ranges
        )


NO_METARANGES = MetarangeTable(
    np.empty(0, _ID), np.empty(0, np.int64), np.empty(0, np.int32), _NO_RANGES
)


def merge_counts(parts: Sequence[RangeCounts]) -> RangeCounts:
    """Every range of the parts, once, in the order of their ids.

    Raises:
        UnsafeToSweepError: two parts promise different counts for one range.
    """
    found, _ = _distinct(parts)
    order = np.argsort(found.ids)
    return RangeCounts(found.ids[order], found.counts[order])


def counts_agree(one: RangeCounts, other: RangeCounts) -> bool:
    """Whether the ranges that both have are of the same counts in both."""
    at = pc.index_in(_as_arrow(one.ids), value_set=_as_arrow(other.ids)).fill_null(-1)
    places = np.asarray(at)
    is_shared = places >= 0
    return bool((one.counts[is_shared] == other.counts[places[is_shared]]).all())


def _distinct(parts: Sequence[RangeCounts]) -> tuple[RangeCounts, npt.NDArray[np.int32]]:
    """The ranges of all parts, each once, and for each line of the parts the place of its range among them.

    By a hash table: sorting ids of 64 bytes takes four times as much CPU.
    """
    listed = [_NO_RANGES, *parts]
    ids = np.concatenate([part.ids for part in listed])
    counts = np.concatenate([part.counts for part in listed])
    encoded = _as_arrow(ids).dictionary_encode()
    places = np.asarray(encoded.indices)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[places[::-1]] = np.arange(len(ids))[::-1]
    promised = counts[first]
    differs = np.flatnonzero(counts != promised[places])
    if len(differs):
        at = differs[0]
        raise UnsafeToSweepError(
            f"One metarange says that range {ids[at].decode()} has {promised[places[at]]} entries, another says "
            f"{counts[at]}. Nothing was deleted. One of these files is damaged.",
            kind="range-counts-differ",
        )
    return RangeCounts(ids[first], promised), places


def _as_arrow(ids: Ids) -> pa.FixedSizeBinaryArray:
    kind = pa.binary(ids.dtype.itemsize)
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(ids), [None, buffer])
