"""Reading a table file: its structure proven first, its records on demand."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakesweep.errors import FormatError
from lakesweep.formats.sstable.blocks import (
    SMALLEST_ENTRY,
    TRAILER_SIZE,
    block_size,
    measure_blocks,
    unpack_block,
    walk_index,
)
from lakesweep.formats.sstable.faults import KEY_ORDER, fault_error
from lakesweep.formats.sstable.footer import FOOTER_SIZE, Footer, Handle
from lakesweep.formats.sstable.properties import Properties, read_block_pairs
from lakesweep.formats.sstable.records import Records
from lakesweep.formats.sstable.scan import scan_records
from lakesweep.formats.sstable.survey import (
    FIRST_USER_SPAN,
    FOUND_SIZE,
    INDEX_SIZE,
    INDEX_START,
    LARGEST_BLOCK,
    MOST_BLOCKS,
    NUMBERS,
    SPACE,
    TOTAL_SIZE,
    USER_PROPERTIES,
    USER_SPAN,
    survey_table,
)

__all__ = ["Scratch", "Table", "open_table"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_SMALLEST_BLOCK = 1 + TRAILER_SIZE
# Keys share prefixes, so they may be larger than the blocks they lie in. lakeFS's are not by far; a bomb's would be.
_MOST_KEY_EXPANSION = 64


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working space for a pass over a table's blocks, and how much they hold."""

    total_size: int
    block: Bytes
    last_key: Bytes
    walk: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table file whose footer, properties and index are sound. Data blocks are checked when they are read."""

    data: Bytes
    properties: Properties
    block_offsets: Ints
    block_lengths: Ints
    _index_blocks: tuple[bytes, ...]
    # Bytes of all blocks unpacked, and of the largest; None where nobody has looked.
    _measured: tuple[int, int] | None = None
    _separators: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return self.properties.num_entries

    def scratch(self, first: int = 0, stop: int | None = None) -> Scratch:
        """Space to read blocks first … stop - 1. A block that lies about its size is refused here, before any is made."""
        if self._measured is not None and first == 0 and stop is None:
            total, largest = self._measured
        else:
            offsets, lengths = self.block_offsets[first:stop], self.block_lengths[first:stop]
            total, largest, faulty = measure_blocks(self.data, offsets, lengths)
            if faulty >= 0:
                raise fault_error(total, "a data block", int(offsets[faulty]))
        return Scratch(
            total_size=total,
            block=np.empty(largest, np.uint8),
            last_key=np.empty(largest, np.uint8),
            walk=np.empty((3, largest // SMALLEST_ENTRY + 1), np.int64),
        )

    def capacity(self, scratch: Scratch) -> int:
        """Number of records the file promises, refused when its blocks can't hold so many."""
        promised = self.properties.num_entries
        if promised > scratch.total_size // SMALLEST_ENTRY:
            raise FormatError(
                f"table file promises {promised} records; its blocks of {scratch.total_size} bytes can't hold them",
                kind="wrong-count",
            )
        return promised

    def records(self) -> Records:
        """All records, in key order."""
        scratch = self.scratch()
        records = self._read(0, None, scratch, self.capacity(scratch))
        self.check_count(len(records))
        return records

    def check_count(self, count: int) -> None:
        """Raise FormatError unless `count` records are what the file promises."""
        if count != self.properties.num_entries:
            raise FormatError(
                f"table file promises {self.properties.num_entries} records and holds {count}",
                kind="wrong-count",
            )

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        for found, value in self.iterate(key):
            return value if found == key else None
        return None

    def iterate(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Records from `start` on (inclusive), in key order, block by block."""
        if not self._separators:
            # One assignment, so that threads that come here together do not fill the list twice.
            self._separators[:] = _index_keys(self._index_blocks)
        # A separator is at least the last key of its block and less than the first of the next.
        first = bisect.bisect_left(self._separators, start)
        last_key = b""
        for number in range(first, self.block_offsets.size):
            scratch = self.scratch(number, number + 1)
            records = self._read(number, number + 1, scratch, scratch.total_size // SMALLEST_ENTRY)
            if number > first and len(records) and records.key(0) <= last_key:
                raise fault_error(-KEY_ORDER, "a data block", int(self.block_offsets[number]))
            for key, value in records:
                last_key = key
                if key >= start:
                    yield key, value

    def _read(self, first: int, stop: int | None, scratch: Scratch, capacity: int) -> Records:
        offsets, lengths = self.block_offsets[first:stop], self.block_lengths[first:stop]
        keys_size = min(self.properties.raw_key_size, scratch.total_size * _MOST_KEY_EXPANSION)
        key_offsets, value_offsets = np.empty((2, capacity + 1), np.int64)
        keys, values = np.empty(keys_size, np.uint8), np.empty(scratch.total_size, np.uint8)
        count, number, within = scan_records(
            self.data,
            offsets,
            lengths,
            scratch.block,
            scratch.last_key,
            scratch.walk,
            key_offsets,
            keys,
            value_offsets,
            values,
        )
        if count < 0:
            raise fault_error(count, "a data block", int(offsets[number]), within)
        key_offsets, value_offsets = key_offsets[: count + 1], value_offsets[: count + 1]
        return Records(
            key_offsets,
            keys[: key_offsets[-1]].copy(),
            value_offsets,
            values[: value_offsets[-1]].copy(),
        )


def open_table(data: bytes) -> Table:
    """Check a table file's structure. Raises FormatError; nothing is read past a doubt."""
    raw = np.frombuffer(data, np.uint8)
    table = _open_small_table(raw)
    return _open_any_table(data, raw) if table is None else table


def _open_small_table(data: Bytes) -> Table | None:
    """The table if it is small and as lakeFS writes it, else None: `_open_any_table` must look."""
    space, found = np.empty(SPACE, np.uint8), np.empty(FOUND_SIZE, np.int64)
    handles = np.empty((2, MOST_BLOCKS), np.int64)
    if not survey_table(data, space, handles, found):
        return None
    texts, numbers = space.tobytes(), found.tolist()
    end = FIRST_USER_SPAN + USER_SPAN * numbers[USER_PROPERTIES]
    user = {}
    for place in range(FIRST_USER_SPAN, end, USER_SPAN):
        key, key_end, value, value_end = numbers[place : place + USER_SPAN]
        user[texts[key:key_end].decode("utf-8", "replace")] = texts[value:value_end]
    entries, count, key_size, value_size, data_size, index_size = numbers[: len(NUMBERS)]
    properties = Properties(entries, count, key_size, value_size, data_size, index_size, user=user)
    offsets, lengths = handles[0, :count].copy(), handles[1, :count].copy()
    index = texts[INDEX_START : INDEX_START + numbers[INDEX_SIZE]]
    measured = numbers[TOTAL_SIZE], numbers[LARGEST_BLOCK]
    return Table(data, properties, offsets, lengths, (index,), measured)


def _open_any_table(data: bytes, raw: Bytes) -> Table:
    """The table of any size, or the FormatError that says what is wrong with it."""
    footer = Footer.of(data)
    _expect_end(footer.metaindex, len(data) - FOOTER_SIZE, "metaindex block")
    pairs = list(read_block_pairs(_payload(raw, footer.metaindex, "the metaindex block")))
    if len(pairs) != 1 or pairs[0][0] != b"rocksdb.properties":
        names = b", ".join(name for name, _ in pairs)
        raise FormatError(
            f"table file of an unknown kind: its metaindex lists {names!r}", kind="unknown-table"
        )
    properties_handle, end = Handle.decode(pairs[0][1])
    if end != len(pairs[0][1]):
        raise FormatError(
            "table file is damaged: its metaindex has stray bytes", kind="damaged-table"
        )
    _expect_end(properties_handle, footer.metaindex.offset, "properties block")
    properties = Properties.decode(_payload(raw, properties_handle, "the properties block"))
    _expect_end(footer.index, properties_handle.offset, "index block")
    return _read_index(raw, footer.index, properties)


def _read_index(data: Bytes, root: Handle, properties: Properties) -> Table:
    blocks: tuple[bytes, ...] = (_payload(data, root, "the index block"),)
    data_end = root.offset
    if properties.is_two_level:
        # The partitions lie between the data blocks and the index of them.
        data_end = properties.data_size
        offsets, lengths = _handles(
            blocks, data_end, root.offset, properties.index_partitions, root.offset
        )
        blocks = tuple(
            _payload(data, Handle(offset, length), "an index block")
            for offset, length in zip(offsets.tolist(), lengths.tolist(), strict=True)
        )
    offsets, lengths = _handles(blocks, 0, data_end, properties.num_data_blocks, root.offset)
    return Table(data, properties, offsets, lengths, blocks)


def _handles(
    blocks: tuple[bytes, ...], start: int, end: int, promised: int, where: int
) -> tuple[Ints, Ints]:
    """Handles of the blocks that tile the file from `start` to `end`, exactly as many as promised."""
    if promised > (end - start) // _SMALLEST_BLOCK:
        raise FormatError(
            f"table file promises {promised} blocks; they can't fit it", kind="wrong-count"
        )
    offsets, lengths = np.empty((2, promised), np.int64)
    count, next_offset = 0, start
    for payload in blocks:
        count, next_offset = walk_index(
            np.frombuffer(payload, np.uint8), len(payload), next_offset, offsets, lengths, count
        )
        if count < 0:
            raise fault_error(count, "the index", where)
    if count != promised or next_offset != end:
        raise FormatError(
            f"table file is damaged: its index lists {count} blocks up to byte {next_offset}, "
            f"where {promised} blocks up to byte {end} are promised",
            kind="damaged-table",
        )
    return offsets, lengths


def _payload(data: Bytes, handle: Handle, what: str) -> bytes:
    if handle.offset + handle.length > data.size:
        raise FormatError(
            f"table file is damaged: {what} lies outside the file", kind="damaged-table"
        )
    size = block_size(data, handle.offset, handle.length)
    if size >= 0:
        out = np.empty(size, np.uint8)
        size = unpack_block(data, handle.offset, handle.length, out)
    if size < 0:
        raise fault_error(size, what, handle.offset)
    return out.tobytes()


def _expect_end(handle: Handle, end: int, what: str) -> None:
    if handle.offset + handle.length + TRAILER_SIZE != end:
        raise FormatError(
            f"table file is damaged or cut short: its {what} should end at byte {end} "
            f"and ends at {handle.offset + handle.length + TRAILER_SIZE}",
            kind="damaged-table",
        )


def _index_keys(blocks: tuple[bytes, ...]) -> list[bytes]:
    keys = [key[:-8] for block in blocks for key, _ in read_block_pairs(block)]
    if any(left > right for left, right in itertools.pairwise(keys)):
        raise FormatError("table file is damaged: its index is not in order", kind="damaged-table")
    return keys
