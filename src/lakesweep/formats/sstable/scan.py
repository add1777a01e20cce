"""One pass over all data blocks of a table, in compiled code, into columns of records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, copy_bytes
from lakesweep.formats.sstable import faults
from lakesweep.formats.sstable.blocks import unpack_block, walk_block

__all__ = ["scan_records"]

Ints = npt.NDArray[np.int64]

_TOO_MANY = -faults.TOO_MANY


@jitted
def scan_records(
    data: Bytes,
    offsets: Ints,
    lengths: Ints,
    block: Bytes,
    last_key: Bytes,
    walk: Ints,
    key_offsets: Ints,
    keys: Bytes,
    value_offsets: Ints,
    values: Bytes,
) -> tuple[int, int, int]:
    """Fill the columns; returns (number of records or a fault, index of the block, byte in it).

    `block`, `last_key` and `walk` (three rows) are scratch space for the largest block.
    """
    capacity = key_offsets.size - 1
    count = 0
    keys_size = 0
    values_size = 0
    last_key_size = -1
    key_offsets[0] = 0
    value_offsets[0] = 0
    for number in range(offsets.size):
        size = unpack_block(data, offsets[number], lengths[number], block)
        if size < 0:
            return size, number, -1
        found, last_key_size, keys_size, where = walk_block(
            block, size, last_key, last_key_size, True, keys, keys_size, walk[0], walk[1], walk[2]
        )
        if found < 0:
            return found, number, where
        if found > capacity - count:
            return _TOO_MANY, number, -1
        for i in range(found):
            start = walk[1, i]
            value_size = walk[2, i]
            if value_size > values.size - values_size:
                return _TOO_MANY, number, start
            copy_bytes(block, start, value_size, values, values_size)
            values_size += value_size
            key_offsets[count + i + 1] = walk[0, i]
            value_offsets[count + i + 1] = values_size
        count += found
    return count, -1, -1
