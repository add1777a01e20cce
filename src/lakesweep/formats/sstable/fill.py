"""Filling data blocks in compiled code, record by record, with the rules of where a block and a range end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes, put_varint, varint_length

__all__ = ["fill_block", "hash_stream"]

Ints = npt.NDArray[np.int64]

# Why `fill_block` stopped.
EXHAUSTED, BLOCK_FULL, RANGE_ENDS, NEEDS_ROOM, UNSORTED = range(5)
# Where it keeps the open block's state between calls.
BLOCK_SIZE, RESTARTS, ENTRIES, LAST_KEY_SIZE = range(4)

RESTART_INTERVAL = 16
TARGET_BLOCK_SIZE = 4096
# Below this share of the target (90 %) a block is never ended.
_BLOCK_SIZE_THRESHOLD = (TARGET_BLOCK_SIZE * 90 + 99) // 100
_KEY_TRAILER_SIZE = 8
_LONGEST_HEADER = 15

_FNV_OFFSET = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)


@jitted
def fill_block(
    key_offsets: Ints,
    keys: Bytes,
    value_offsets: Ints,
    values: Bytes,
    first: int,
    state: Ints,
    block: Bytes,
    restarts: Ints,
    last_key: Bytes,
    closed_size: int,
    min_range_size: int,
    max_range_size: int,
    raggedness: int,
) -> tuple[int, int]:
    """Add records from number `first` on; returns (why it stopped, number of the next record).

    `closed_size` is the estimated size of all but the open block. A `raggedness` of 0 never ends the range.
    """
    for record in range(first, key_offsets.size - 1):
        key_start = key_offsets[record]
        key_size = key_offsets[record + 1] - key_start
        value_start = value_offsets[record]
        value_size = value_offsets[record + 1] - value_start
        size = state[BLOCK_SIZE]
        if _ends_block(state, key_size + _KEY_TRAILER_SIZE, value_size):
            return BLOCK_FULL, record
        needed = size + _LONGEST_HEADER + key_size + _KEY_TRAILER_SIZE + value_size
        if needed > block.size or key_size > last_key.size or state[RESTARTS] >= restarts.size:
            return NEEDS_ROOM, record

        last_size = state[LAST_KEY_SIZE]
        same = 0
        while same < min(key_size, last_size) and (
            byte_at(keys, key_start + same) == byte_at(last_key, same)
        ):
            same += 1
        if last_size >= 0 and (
            same == key_size or (same < last_size and keys[key_start + same] < last_key[same])
        ):
            return UNSORTED, record
        shared = same
        if state[ENTRIES] % RESTART_INTERVAL == 0:
            restarts[state[RESTARTS]] = size
            state[RESTARTS] += 1
            shared = 0

        pos = put_varint(block, size, shared)
        pos = put_varint(block, pos, key_size - shared + _KEY_TRAILER_SIZE)
        pos = put_varint(block, pos, value_size)
        copy_bytes(keys, key_start + shared, key_size - shared, block, pos)
        pos += key_size - shared
        block[pos] = 1
        block[pos + 1 : pos + _KEY_TRAILER_SIZE] = 0
        pos += _KEY_TRAILER_SIZE
        copy_bytes(values, value_start, value_size, block, pos)
        state[BLOCK_SIZE] = pos + value_size
        state[ENTRIES] += 1
        copy_bytes(keys, key_start + same, key_size - same, last_key, same)
        state[LAST_KEY_SIZE] = key_size
        if raggedness > 0:
            estimated = closed_size + estimated_block_size(state)
            if estimated >= min_range_size and (
                estimated >= max_range_size
                or _fnv1a(keys, key_start, key_size) % np.uint64(raggedness) == np.uint64(0)
            ):
                return RANGE_ENDS, record + 1
    return EXHAUSTED, key_offsets.size - 1


@jitted
def estimated_block_size(state: Ints) -> int:
    """Size of the open block if it were ended now."""
    return int(state[BLOCK_SIZE] + 4 * state[RESTARTS] + 4)


@jitted
def _ends_block(state: Ints, key_size: int, value_size: int) -> bool:
    """Pebble's rule: whether the open block ends before a record of these sizes."""
    if state[ENTRIES] == 0:
        return False
    estimated = estimated_block_size(state)
    if estimated >= TARGET_BLOCK_SIZE:
        return True
    if estimated <= _BLOCK_SIZE_THRESHOLD:
        return False
    estimated += key_size + value_size + 4 + varint_length(key_size) + varint_length(value_size)
    if state[ENTRIES] % RESTART_INTERVAL == 0:
        estimated += 4
    return estimated > TARGET_BLOCK_SIZE


@jitted
def _fnv1a(data: Bytes, start: int, length: int) -> np.uint64:
    h = _FNV_OFFSET
    for i in range(start, start + length):
        h = (h ^ np.uint64(data[i])) * _FNV_PRIME
    return h


@jitted
def hash_stream(
    key_offsets: Ints,
    keys: Bytes,
    value_offsets: Ints,
    values: Bytes,
    first: int,
    stop: int,
    out: Bytes,
) -> int:
    """Write what records first … stop - 1 add to a file's id: each part with its length in front, a pipe behind.

    Returns the size written. `out` must have room for both parts and 2 x 20 bytes a record.
    """
    pos = 0
    for record in range(first, stop):
        pos = _put_counted(out, pos, keys, key_offsets[record], key_offsets[record + 1])
        pos = _put_counted(out, pos, values, value_offsets[record], value_offsets[record + 1])
    return pos


@jitted
def _put_counted(out: Bytes, pos: int, data: Bytes, start: int, end: int) -> int:
    size = end - start
    digits = 1
    power = 10
    while size >= power:
        digits += 1
        power *= 10
    for i in range(digits):
        power //= 10
        out[pos + i] = 48 + (size // power) % 10
    pos += digits
    copy_bytes(data, start, size, out, pos)
    pos += size
    out[pos] = 124
    return pos + 1
