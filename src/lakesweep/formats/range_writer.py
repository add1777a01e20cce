"""Writing ranges: sorted files of a commit's entries, cut by lakeFS's rule and named by what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from lakesweep.domain.commits import RangeId
from lakesweep.formats.identity import tagged_text_map
from lakesweep.formats.sstable import BreakRule, Records, TableWriter
from lakesweep.formats.sstable.fill import hash_stream

__all__ = ["RangeWriter", "WrittenRange", "write_range_batches", "write_ranges"]

_BATCH = 1 << 16


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """A finished range file and what a metarange says about it."""

    id: RangeId
    data: bytes
    min_key: bytes
    max_key: bytes
    count: int
    estimated_size: int


class RangeWriter:
    """Writes one range; `should_break` says when to finish it and start the next."""

    def __init__(
        self, rule: BreakRule | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        self._properties = {**(properties or {}), "type": "ranges"}
        self._table = TableWriter(rule or BreakRule())
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._table)

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record; its key must be greater than all before."""
        self.add_records(Records.from_pairs([(key, value)]))

    def add_records(self, records: Records, first: int = 0) -> int:
        """Add records from number `first` on, up to the one that ends the range; returns the number of the next."""
        after = self._table.add_records(records, first)
        update_digest(self._digest, records, first, after)
        return after

    def should_break(self) -> bool:
        """Whether the range ends behind the last record."""
        return self._table.must_break

    def finish(self) -> WrittenRange:
        """The file. The writer is used up."""
        table = self._table
        range_id, data, estimated_size = finish_table(table, self._digest, self._properties)
        return WrittenRange(
            RangeId(range_id), data, table.first_key, table.last_key, len(table), estimated_size
        )


def update_digest(digest: hashlib._Hash, records: Records, first: int, stop: int) -> None:
    """Feed records first … stop - 1 to the hash that becomes the file's id."""
    if stop <= first:
        return
    size = int(
        records.key_offsets[stop]
        - records.key_offsets[first]
        + records.value_offsets[stop]
        - records.value_offsets[first]
    )
    stream = np.empty(size + 40 * (stop - first), np.uint8)
    written = hash_stream(
        records.key_offsets,
        records.keys,
        records.value_offsets,
        records.values,
        first,
        stop,
        stream,
    )
    digest.update(stream[:written].data)


def finish_table(
    table: TableWriter, digest: hashlib._Hash, properties: Mapping[str, str]
) -> tuple[str, bytes, int]:
    """(id, file, estimated size). The id covers the records and `properties`, not the statistics added here."""
    digest.update(tagged_text_map(properties))
    estimated_size = table.estimated_size
    data = table.finish(
        {
            **{name: value.encode() for name, value in properties.items()},
            "min_key": table.first_key,
            "max_key": table.last_key,
            "count": str(len(table)).encode(),
            "estimated_size_bytes": str(estimated_size).encode(),
        }
    )
    return digest.hexdigest(), data, estimated_size


def write_ranges(
    records: Iterable[tuple[bytes, bytes]],
    *,
    rule: BreakRule | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[WrittenRange]:
    """Cut sorted (key, value) records into ranges as lakeFS does. Holds one range and one batch at a time."""
    pairs = iter(records)
    batches = iter(lambda: list(islice(pairs, _BATCH)), [])
    return write_range_batches(map(Records.from_pairs, batches), rule=rule, properties=properties)


def write_range_batches(
    batches: Iterable[Records],
    *,
    rule: BreakRule | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[WrittenRange]:
    """Cut sorted records in columns into ranges as lakeFS does: the fast road for millions of them."""
    writer = RangeWriter(rule, properties)
    for batch in batches:
        number = 0
        while number < len(batch):
            number = writer.add_records(batch, number)
            if writer.should_break():
                yield writer.finish()
                writer = RangeWriter(rule, properties)
    if len(writer):
        yield writer.finish()
