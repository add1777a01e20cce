"""Writing a table file, byte for byte by Pebble's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cramjam
import numpy as np

from lakesweep.formats.sstable import fill
from lakesweep.formats.sstable.checksum import masked_crc32c
from lakesweep.formats.sstable.footer import Footer, Handle
from lakesweep.formats.sstable.index import EMPTY_TABLE_KEY, IndexBuilder, separator, successor
from lakesweep.formats.sstable.properties import Properties
from lakesweep.formats.sstable.records import Records

__all__ = ["BreakRule", "TableWriter"]

_KEY_TRAILER_SIZE = 8
_FIRST_ROOM = 64 << 10


@dataclass(frozen=True, slots=True)
class BreakRule:
    """Where a range ends: never below the least size, always at the largest, else at every key that hashes to it.

    Ends that depend on keys alone make two commits cut their ranges at the same places, and so share them.
    """

    min_range_size_bytes: int = 0
    max_range_size_bytes: int = 20 << 20
    range_raggedness_entries: int = 50_000


class TableWriter:
    """One table file, built in memory. Records come in ascending order of their keys."""

    def __init__(self, rule: BreakRule | None = None) -> None:
        self._rule = rule
        self._parts: list[bytes] = []
        self._size = 0
        self._index = IndexBuilder()
        self._blocks = 0
        self._state = np.array([0, 0, 0, -1], np.int64)
        self._block = np.empty(_FIRST_ROOM, np.uint8)
        self._restarts = np.empty(_FIRST_ROOM // 4, np.int64)
        self._last_key = np.empty(_FIRST_ROOM, np.uint8)
        self._key_size = 0
        self._value_size = 0
        self._count = 0
        self._must_break = False
        self.first_key = b""

    def __len__(self) -> int:
        return self._count

    @property
    def last_key(self) -> bytes:
        """The greatest key so far."""
        return self._last_key[: max(int(self._state[fill.LAST_KEY_SIZE]), 0)].tobytes()

    @property
    def estimated_size(self) -> int:
        """The file's size as lakeFS estimates it while writing."""
        return self._size + self._index.open_size + fill.estimated_block_size(self._state)

    @property
    def must_break(self) -> bool:
        """Whether the range ends behind the last record."""
        return self._must_break

    def add_records(self, records: Records, first: int = 0) -> int:
        """Add records from number `first` on, up to the one that ends the range; returns the number of the next."""
        rule = self._rule
        number = first
        while not self._must_break and number < len(records):
            with np.errstate(over="ignore"):
                stopped, after = fill.fill_block(
                    records.key_offsets,
                    records.keys,
                    records.value_offsets,
                    records.values,
                    number,
                    self._state,
                    self._block,
                    self._restarts,
                    self._last_key,
                    self._size + self._index.open_size,
                    rule.min_range_size_bytes if rule else 0,
                    rule.max_range_size_bytes if rule else 0,
                    rule.range_raggedness_entries if rule else 0,
                )
            self._note_added(records, number, after)
            number = after
            if stopped == fill.BLOCK_FULL:
                self._end_block(separator(self.last_key, records.key(number)))
            elif stopped == fill.NEEDS_ROOM:
                self._make_room(records, number)
            elif stopped == fill.UNSORTED:
                raise ValueError(
                    f"key {records.key(number)!r} does not come after {self.last_key!r}"
                )
            elif stopped == fill.RANGE_ENDS:
                self._must_break = True
        return number

    def finish(self, user_properties: Mapping[str, bytes]) -> bytes:
        """The whole file."""
        if self._count == 0:
            self._end_block(EMPTY_TABLE_KEY)
        elif self._state[fill.ENTRIES]:
            self._end_block(successor(self.last_key))
        data_size = self._size
        partitions = self._index.partitions()
        index_size = sum(len(payload) for _, payload in partitions)
        top_level_size = 0
        if len(partitions) == 1:
            index = self._write_block(partitions[0][1])
        else:
            entries = [(key, self._write_block(payload)) for key, payload in partitions]
            top_level = IndexBuilder.top_level(entries)
            top_level_size = len(top_level)
            index = self._write_block(top_level)
        properties = Properties(
            num_entries=self._count,
            num_data_blocks=self._blocks,
            raw_key_size=self._key_size,
            raw_value_size=self._value_size,
            data_size=data_size,
            index_size=index_size + top_level_size + 5,
            index_partitions=len(partitions) if len(partitions) > 1 else 0,
            top_level_index_size=top_level_size,
            user=user_properties,
        )
        properties_handle = self._write_block(properties.encode(), packed=False)
        metaindex = self._write_block(_metaindex(properties_handle), packed=False)
        self._parts.append(Footer(metaindex, index).encode())
        return b"".join(self._parts)

    def _note_added(self, records: Records, first: int, stop: int) -> None:
        if stop > first and self._count == 0:
            self.first_key = records.key(first)
        added = stop - first
        self._count += added
        keys = int(records.key_offsets[stop] - records.key_offsets[first])
        self._key_size += keys + _KEY_TRAILER_SIZE * added
        self._value_size += int(records.value_offsets[stop] - records.value_offsets[first])

    def _make_room(self, records: Records, number: int) -> None:
        key_size = int(records.key_offsets[number + 1] - records.key_offsets[number])
        value_size = int(records.value_offsets[number + 1] - records.value_offsets[number])
        needed = 2 * (int(self._state[fill.BLOCK_SIZE]) + key_size + value_size + 64)
        self._block = _grown(self._block, needed)
        self._last_key = _grown(self._last_key, 2 * key_size)
        self._restarts = np.resize(self._restarts, max(self._restarts.size, needed // 4))

    def _end_block(self, index_key: bytes) -> None:
        size, restarts = int(self._state[fill.BLOCK_SIZE]), int(self._state[fill.RESTARTS])
        points = self._restarts[:restarts] if restarts else np.zeros(1, np.int64)
        tail = np.append(points, points.size).astype("<u4").tobytes()
        handle = self._write_block(self._block[:size].tobytes() + tail)
        self._index.add(index_key, handle)
        self._blocks += 1
        self._state[[fill.BLOCK_SIZE, fill.RESTARTS, fill.ENTRIES]] = 0

    def _write_block(self, payload: bytes, *, packed: bool = True) -> Handle:
        kind = b"\0"
        if packed:
            smaller = bytes(cramjam.snappy.compress_raw(payload))
            # Packing that saves less than an eighth is not worth the unpacking.
            if len(smaller) < len(payload) - len(payload) // 8:
                payload, kind = smaller, b"\1"
        checked = np.frombuffer(payload + kind, np.uint8)
        checksum = masked_crc32c(checked, 0, checked.size)
        handle = Handle(self._size, len(payload))
        self._parts.append(payload + kind + checksum.to_bytes(4, "little"))
        self._size += len(payload) + 5
        return handle


def _grown(
    buffer: np.ndarray[tuple[int], np.dtype[np.uint8]], size: int
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    if size <= buffer.size:
        return buffer
    larger = np.empty(size, np.uint8)
    larger[: buffer.size] = buffer
    return larger


def _metaindex(properties: Handle) -> bytes:
    name, value = b"rocksdb.properties", properties.encode()
    entry = bytes([0, len(name), len(value)]) + name + value
    return entry + bytes(4) + (1).to_bytes(4, "little")
