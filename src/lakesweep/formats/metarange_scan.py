"""One compiled pass over a metarange's records: the ids of its ranges and how many entries each has.

It takes only what lakeFS itself writes, and gives up at anything else; the plain reader then has the word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, copy_bytes, read_varint

__all__ = ["ID_SIZE", "scan_range_counts"]

Ints = npt.NDArray[np.int64]

ID_SIZE = 64
_MIN_KEY, _MAX_KEY, _SIZE, _COUNT = 1, 2, 3, 4
_VARINT, _LEN = 0, 2


@jitted
def scan_range_counts(
    key_offsets: Ints, keys: Bytes, value_offsets: Ints, values: Bytes, ids: Bytes, counts: Ints
) -> bool:
    """Fill ids (64 bytes each, end to end) and counts; False where a record is not as lakeFS writes it."""
    for i in range(counts.size):
        pos, end = _identity(values, value_offsets[i], value_offsets[i + 1])
        if pos < 0:
            return False
        copy_bytes(values, pos - ID_SIZE, ID_SIZE, ids, i * ID_SIZE)
        zigzag, pos = read_varint(values, pos, end)
        if pos < 0 or zigzag != (end - pos) << 1:
            return False
        seen, min_start, min_size, max_start, max_size = 0, 0, 0, 0, 0
        counts[i] = 0
        while pos < end:
            tag, pos = read_varint(values, pos, end)
            if pos < 0:
                return False
            field = tag >> 3
            if field < _MIN_KEY or field > _COUNT or seen & (1 << field):
                return False
            seen |= 1 << field
            if tag & 7 != (_LEN if field <= _MAX_KEY else _VARINT):
                return False
            number, pos = read_varint(values, pos, end)
            if pos < 0:
                return False
            if field == _COUNT:
                counts[i] = number
            elif field != _SIZE:
                if number < 0 or number > end - pos:
                    return False
                if field == _MIN_KEY:
                    min_start, min_size = pos, number
                else:
                    max_start, max_size = pos, number
                pos += number
        key, key_size = key_offsets[i], key_offsets[i + 1] - key_offsets[i]
        if counts[i] < 1 or _order(values, max_start, max_size, keys, key, key_size) != 0:
            return False
        if _order(values, min_start, min_size, values, max_start, max_size) > 0:
            return False
        if i > 0:
            before = key_offsets[i - 1]
            if _order(values, min_start, min_size, keys, before, key - before) <= 0:
                return False
    return True


@jitted
def _identity(values: Bytes, start: int, end: int) -> tuple[int, int]:
    """(where the identity of a record ends, where the record ends); -1 where it is not an id of a range."""
    zigzag, pos = read_varint(values, start, end)
    if pos < 0 or zigzag != ID_SIZE << 1 or end - pos < ID_SIZE:
        return -1, end
    for at in range(pos, pos + ID_SIZE):
        letter = values[np.uintp(at)]
        if not (48 <= letter <= 57 or 97 <= letter <= 102):
            return -1, end
    return pos + ID_SIZE, end


@jitted
def _order(left: Bytes, start: int, size: int, right: Bytes, at: int, length: int) -> int:
    """Less than, equal to or more than 0, as the bytes of the left sort against those of the right."""
    for i in range(min(size, length)):
        difference = np.int64(left[np.uintp(start + i)]) - np.int64(right[np.uintp(at + i)])
        if difference != 0:
            return difference  # type: ignore[return-value]  # an int to its compiled callers
    return size - length
