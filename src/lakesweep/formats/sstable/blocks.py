"""Blocks in compiled code: checked, unpacked, and walked entry by entry."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted, jitted_with_lock
from lakesweep.formats.octets import Bytes, byte_at, copy_ahead, copy_bytes, read_varint, word_at
from lakesweep.formats.sstable import faults
from lakesweep.formats.sstable.checksum import masked_crc32c
from lakesweep.formats.sstable.snappy import snappy_length, unpack_snappy

__all__ = [
    "SMALLEST_ENTRY",
    "TRAILER_SIZE",
    "block_size",
    "entries_end",
    "fixed32",
    "measure_blocks",
    "unpack_block",
    "walk_block",
    "walk_index",
]

Ints = npt.NDArray[np.int64]

TRAILER_SIZE = 5  # type byte and checksum behind each block
KEY_TRAILER_SIZE = 8  # sequence number and kind behind each key
SMALLEST_ENTRY = 3 + KEY_TRAILER_SIZE  # three lengths of a byte each
_RAW, _SNAPPY = 0, 1
_SET = np.uint64(1)  # the trailer of a plain SET with sequence number 0
# Two parts of lakeFS's largest size in one record, and some room: more is no block of lakeFS's.
_LARGEST_BLOCK = 96 << 20

_BLOCK_BOUNDS = -faults.BLOCK_BOUNDS
_CHECKSUM = -faults.CHECKSUM
_BLOCK_TYPE = -faults.BLOCK_TYPE
_SNAPPY_LENGTH = -faults.SNAPPY_LENGTH
_SNAPPY_FAULT = -faults.SNAPPY
_RESTARTS = -faults.RESTARTS
_ENTRY_BOUNDS = -faults.ENTRY_BOUNDS
_KEY_ORDER = -faults.KEY_ORDER
_KEY_KIND = -faults.KEY_KIND
_KEYS_TOO_LARGE = -faults.KEYS_TOO_LARGE
_HANDLE = -faults.HANDLE


@jitted_with_lock
def block_size(data: Bytes, offset: int, length: int) -> int:
    """How many bytes the block unpacks to, or a fault. Looks at lengths only; checks no checksum."""
    if offset < 0 or length < 0 or length > data.size or offset > data.size - length - TRAILER_SIZE:
        return _BLOCK_BOUNDS
    kind = data[offset + length]
    if kind == _RAW:
        size = length
    elif kind == _SNAPPY:
        size = snappy_length(data, offset, length)
        if size < 0:
            return _SNAPPY_LENGTH
    else:
        return _BLOCK_TYPE
    return size if size <= _LARGEST_BLOCK else _SNAPPY_LENGTH


@jitted
def unpack_block(data: Bytes, offset: int, length: int, out: Bytes) -> int:
    """Check the block's checksum and unpack it into `out`; returns its size, or a fault."""
    size = block_size(data, offset, length)
    if size < 0:
        return size
    stored = 0
    for i in range(4):
        stored |= byte_at(data, offset + length + 1 + i) << (8 * i)
    if masked_crc32c(data, offset, length + 1) != stored:
        return _CHECKSUM
    if size > out.size:
        return _SNAPPY_LENGTH
    if data[offset + length] == _SNAPPY:
        return size if unpack_snappy(data, offset, length, out) == size else _SNAPPY_FAULT
    copy_bytes(data, offset, length, out, 0)
    return size


@jitted_with_lock
def measure_blocks(data: Bytes, offsets: Ints, lengths: Ints) -> tuple[int, int, int]:
    """(bytes of all blocks unpacked, of the largest, index of a faulty block); a fault stands in the first place."""
    total = 0
    largest = 0
    for block in range(offsets.size):
        size = block_size(data, offsets[block], lengths[block])
        if size < 0:
            return size, 0, block
        total += size
        largest = max(largest, size)
    return total, largest, -1


@jitted
def entries_end(block: Bytes, size: int) -> int:
    """Where the entries of a block end and its restart points begin; -1 where those do not fit it, or size is a fault."""
    if size < 8:
        return -1
    restarts = fixed32(block, size - 4)
    if restarts < 1 or restarts > (size - 4) // 4:
        return -1
    return size - 4 * (restarts + 1)


@jitted
def walk_block(
    block: Bytes,
    size: int,
    last_key: Bytes,
    last_key_size: int,
    keeps_keys: bool,
    keys: Bytes,
    keys_size: int,
    key_ends: Ints,
    value_starts: Ints,
    value_sizes: Ints,
) -> tuple[int, int, int, int]:
    """Find the entries of a data block: where each value lies and, if asked, its key.

    `last_key` carries the last key of the block before, and then of this one; keys must rise across blocks too.
    Returns (number of entries or a fault, size of the last key, size of `keys`, byte at which a fault was seen).
    """
    end = entries_end(block, size)
    if end < 0:
        return _RESTARTS, 0, 0, size
    restarts = (size - end) // 4 - 1
    # Every restart point must be the start of an entry that shares nothing, in order.
    next_restart = 0
    count = 0
    pos = 0
    while pos < end:
        entry = pos
        shared, pos = read_varint(block, pos, end)
        unshared = value_size = 0
        if pos >= 0:
            unshared, pos = read_varint(block, pos, end)
        if pos >= 0:
            value_size, pos = read_varint(block, pos, end)
        if pos < 0 or unshared < KEY_TRAILER_SIZE or unshared > end - pos:
            return _ENTRY_BOUNDS, 0, 0, entry
        if value_size < 0 or value_size > end - pos - unshared:
            return _ENTRY_BOUNDS, 0, 0, entry
        if next_restart < restarts and fixed32(block, end + 4 * next_restart) == entry:
            next_restart += 1
            if shared != 0:
                return _RESTARTS, 0, 0, entry
        elif count == 0:
            return _RESTARTS, 0, 0, entry
        if shared < 0 or (shared > 0 and shared > last_key_size):
            return _ENTRY_BOUNDS, 0, 0, entry

        suffix = unshared - KEY_TRAILER_SIZE
        key_size = shared + suffix
        if key_size > last_key.size:
            return _ENTRY_BOUNDS, 0, 0, entry
        # SET with sequence number 0 is all that lakeFS writes; anything else would mean something unknown.
        if word_at(block, pos + suffix) != _SET:
            return _KEY_KIND, 0, 0, entry
        if not _rises(last_key, last_key_size, shared, block, pos, suffix):
            return _KEY_ORDER, 0, 0, entry
        copy_ahead(block, pos, suffix, last_key, shared)
        last_key_size = key_size
        if keeps_keys:
            if key_size > keys.size - keys_size:
                return _KEYS_TOO_LARGE, 0, 0, entry
            copy_bytes(last_key, 0, key_size, keys, keys_size)
            keys_size += key_size
            key_ends[count] = keys_size
        pos += unshared
        value_starts[count] = pos
        value_sizes[count] = value_size
        count += 1
        pos += value_size
    # A block without entries still has one restart point, at 0.
    if next_restart != restarts and not (count == 0 and restarts == 1 and fixed32(block, end) == 0):
        return _RESTARTS, 0, 0, end
    return count, last_key_size, keys_size, -1


@jitted_with_lock
def walk_index(
    block: Bytes, size: int, next_offset: int, offsets: Ints, lengths: Ints, count: int
) -> tuple[int, int]:
    """Append the handles of an index block to `offsets` and `lengths`, which hold `count` already.

    Each handle must point where the block before it ended, so no block is read twice and none is passed over.
    Returns (new count or a fault, offset behind the last block).
    """
    end = entries_end(block, size)
    if end < 0:
        return _RESTARTS, 0
    pos = 0
    while pos < end:
        shared, pos = read_varint(block, pos, end)
        unshared = value_size = 0
        if pos >= 0:
            unshared, pos = read_varint(block, pos, end)
        if pos >= 0:
            value_size, pos = read_varint(block, pos, end)
        # Index blocks restart at every entry, so keys share nothing.
        if pos < 0 or shared != 0 or unshared < KEY_TRAILER_SIZE or unshared > end - pos:
            return _ENTRY_BOUNDS, 0
        pos += unshared
        if value_size < 0 or value_size > end - pos:
            return _ENTRY_BOUNDS, 0
        value_end = pos + value_size
        offset, pos = read_varint(block, pos, value_end)
        length = 0
        if pos >= 0:
            length, pos = read_varint(block, pos, value_end)
        if pos != value_end or offset != next_offset or length < 0 or length > _LARGEST_BLOCK:
            return _HANDLE, 0
        if count >= offsets.size:
            return _HANDLE, 0
        offsets[count] = offset
        lengths[count] = length
        count += 1
        next_offset = offset + length + TRAILER_SIZE
    return count, next_offset


@jitted
def _rises(
    last_key: Bytes, last_size: int, shared: int, block: Bytes, pos: int, suffix: int
) -> bool:
    """Whether last_key[:shared] + the suffix at `pos` is greater than last_key. The first key of a file always is."""
    if last_size < 0:
        return True
    for i in range(min(last_size - shared, suffix)):
        old = byte_at(last_key, shared + i)
        new = byte_at(block, pos + i)
        if new != old:
            return new > old
    return suffix > last_size - shared


@jitted
def fixed32(data: Bytes, pos: int) -> int:
    """Four bytes as a number, the first one lowest."""
    return (
        byte_at(data, pos)
        | byte_at(data, pos + 1) << 8
        | byte_at(data, pos + 2) << 16
        | byte_at(data, pos + 3) << 24
    )
