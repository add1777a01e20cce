"""Metaranges: the list of ranges that make up a commit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.errors import FormatError
from lakesweep.formats.metarange_scan import ID_SIZE, scan_range_counts
from lakesweep.formats.proto import Message, int_field, text_field
from lakesweep.formats.range_writer import WrittenRange, finish_table, update_digest
from lakesweep.formats.ranges import open_typed
from lakesweep.formats.sstable import Records, TableWriter
from lakesweep.formats.values import join_value, split_value

__all__ = ["RangeCounts", "RangeInfo", "read_metarange", "read_range_counts", "write_metarange"]

_ID = re.compile(rb"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """What a metarange says about one range: its id, the keys it spans (both ends included), how much it holds."""

    id: RangeId
    min_key: bytes
    max_key: bytes
    count: int
    estimated_size: int

    @classmethod
    def of(cls, written: WrittenRange) -> RangeInfo:
        """The line for a range just written."""
        return cls(
            written.id, written.min_key, written.max_key, written.count, written.estimated_size
        )


@dataclass(frozen=True, slots=True, eq=False)
class RangeCounts:
    """Ranges by their ids, 64 bytes each, and how many entries each is said to have."""

    ids: npt.NDArray[np.bytes_]
    counts: npt.NDArray[np.int64]


def read_range_counts(data: bytes) -> RangeCounts:
    """What `read_metarange` tells of ids and counts, in columns, with the same checks. Raises FormatError."""
    records = open_typed(data, b"metaranges", None, b"").records()
    ids, counts = np.empty(len(records) * ID_SIZE, np.uint8), np.empty(len(records), np.int64)
    if not scan_range_counts(
        records.key_offsets, records.keys, records.value_offsets, records.values, ids, counts
    ):
        ranges = read_metarange(data)  # says what is wrong, or reads what a later lakeFS may write
        return RangeCounts(
            np.array([info.id for info in ranges], f"S{ID_SIZE}"),
            np.array([info.count for info in ranges], np.int64),
        )
    return RangeCounts(ids.view(f"S{ID_SIZE}"), counts)


def read_metarange(data: bytes, *, entity: bytes = b"") -> list[RangeInfo]:
    """The ranges of a metarange in key order, checked to be disjoint. Raises FormatError."""
    table = open_typed(data, b"metaranges", None, entity)
    ranges: list[RangeInfo] = []
    for key, value in table.records():
        identity, encoded = split_value(value)
        if not _ID.match(identity):
            raise FormatError(
                f"a metarange lists a range with the id {identity[:80]!r}", kind="bad-metarange"
            )
        message = Message(encoded, "RangeData")
        info = RangeInfo(
            id=RangeId(identity.decode()),
            min_key=message.raw(1),
            max_key=message.raw(2),
            count=message.int64(4),
            estimated_size=message.int64(3),
        )
        if info.max_key != key or info.min_key > info.max_key or info.count < 1:
            raise FormatError(
                f"a metarange contradicts itself about its range {info}", kind="bad-metarange"
            )
        if ranges and info.min_key <= ranges[-1].max_key:
            raise FormatError(
                f"a metarange lists ranges {ranges[-1].id} and {info.id}, which overlap",
                kind="bad-metarange",
            )
        ranges.append(info)
    return ranges


def write_metarange(
    ranges: Iterable[RangeInfo | WrittenRange], *, properties: Mapping[str, str] | None = None
) -> tuple[MetaRangeId, bytes]:
    """(id, file) of the metarange that lists `ranges`, which come in key order."""
    records = Records.from_pairs((info.max_key, _value(info)) for info in ranges)
    table, digest = TableWriter(), hashlib.sha256()
    table.add_records(records)
    update_digest(digest, records, 0, len(records))
    metarange_id, data, _ = finish_table(
        table, digest, {**(properties or {}), "type": "metaranges"}
    )
    return MetaRangeId(metarange_id), data


def _value(info: RangeInfo | WrittenRange) -> bytes:
    data = (
        text_field(1, info.min_key)
        + text_field(2, info.max_key)
        + int_field(3, info.estimated_size)
        + int_field(4, info.count)
    )
    return join_value(info.id.encode(), data)
