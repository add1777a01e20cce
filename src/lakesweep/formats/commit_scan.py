"""One compiled pass over the commits of a refs dump, into columns.

It takes only what lakeFS itself writes, and gives up at anything else; the plain reader then has the word.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes, read_varint

__all__ = ["ID_SIZE", "scan_commits"]

Ints = npt.NDArray[np.int64]

ID_SIZE = 64
_ID, _DATE, _META_RANGE_ID, _METADATA, _PARENTS, _VERSION, _GENERATION = 1, 4, 5, 6, 7, 8, 9
_OF_IDS = 1 << _ID | 1 << _META_RANGE_ID | 1 << _PARENTS
_REPEATED = 1 << _METADATA | 1 << _PARENTS
_VARINT, _LEN = 0, 2
_KEY_TAG, _VALUE_TAG = 0x0A, 0x12  # of an entry of a map
_SECONDS_TAG, _NANOS_TAG = 0x08, 0x10  # of a timestamp
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_NO_TIME = -(1 << 63)


@jitted
def scan_commits(
    value_offsets: Ints,
    values: Bytes,
    ids: Bytes,
    meta_range_ids: Bytes,
    dates: Ints,
    generations: Ints,
    versions: Ints,
    parent_counts: Ints,
    parent_ids: Bytes,
) -> int:
    """Fill the columns; returns the number of all parents, or -1 where a record is not as lakeFS writes it.

    Ids have 64 bytes each, end to end; `meta_range_ids` come as zeros, and stay so for a commit without one.
    """
    total = 0
    for i in range(dates.size):
        pos, end = _data_of(values, value_offsets[i], value_offsets[i + 1])
        if pos < 0:
            return -1
        seen = 0
        first_parent = total
        dates[i] = 0
        generations[i] = 0
        versions[i] = 0
        while pos < end:
            tag, pos = read_varint(values, pos, end)
            if pos < 0:
                return -1
            field = tag >> 3
            if field < _ID or field > _GENERATION:
                return -1
            if not _REPEATED & (1 << field):
                if seen & (1 << field):
                    return -1
                seen |= 1 << field
            number, pos = read_varint(values, pos, end)
            if pos < 0:
                return -1
            if field >= _VERSION:
                if tag & 7 != _VARINT or number < -(1 << 31) or number >= 1 << 31:
                    return -1
                if field == _VERSION:
                    versions[i] = number
                else:
                    generations[i] = number
                continue
            if tag & 7 != _LEN or number < 0 or number > end - pos:
                return -1
            if _OF_IDS & (1 << field):
                if number != ID_SIZE or not _is_hex(values, pos):
                    return -1
                if field == _ID:
                    copy_bytes(values, pos, ID_SIZE, ids, i * ID_SIZE)
                elif field == _META_RANGE_ID:
                    copy_bytes(values, pos, ID_SIZE, meta_range_ids, i * ID_SIZE)
                else:
                    if (total + 1) * ID_SIZE > parent_ids.size:
                        return -1
                    copy_bytes(values, pos, ID_SIZE, parent_ids, total * ID_SIZE)
                    total += 1
            elif field == _DATE:
                dates[i] = _microseconds(values, pos, pos + number)
                if dates[i] == _NO_TIME:
                    return -1
            elif field == _METADATA:
                if not _is_pair(values, pos, pos + number):
                    return -1
            elif not _is_text(values, pos, pos + number):
                return -1
            pos += number
        if not seen & (1 << _ID):
            return -1
        parent_counts[i] = total - first_parent
    return total


@jitted
def _data_of(values: Bytes, start: int, end: int) -> tuple[int, int]:
    """(where the data of a record starts, where it ends); -1 where the record does not end with it."""
    zigzag, pos = read_varint(values, start, end)
    if pos < 0 or zigzag < 0 or zigzag & 1 or zigzag >> 1 > end - pos:
        return -1, end
    pos += zigzag >> 1
    zigzag, pos = read_varint(values, pos, end)
    if pos < 0 or zigzag != (end - pos) << 1:
        return -1, end
    return pos, end


@jitted
def _is_hex(values: Bytes, pos: int) -> bool:
    for at in range(pos, pos + ID_SIZE):
        letter = byte_at(values, at)
        if not (48 <= letter <= 57 or 97 <= letter <= 102):
            return False
    return True


@jitted
def _microseconds(values: Bytes, pos: int, end: int) -> int:
    """The time in a timestamp since 1970, or `_NO_TIME`."""
    seconds = 0
    nanos = 0
    seen = 0
    while pos < end:
        tag, pos = read_varint(values, pos, end)
        if pos < 0 or (tag != _SECONDS_TAG and tag != _NANOS_TAG) or seen & tag:
            return _NO_TIME
        seen |= tag
        number, pos = read_varint(values, pos, end)
        if pos < 0:
            return _NO_TIME
        if tag == _SECONDS_TAG:
            seconds = number
        else:
            nanos = number
    if nanos < 0 or nanos >= 1_000_000_000:
        return _NO_TIME
    # As `time_of_second` does.
    seconds = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
    return seconds * 1_000_000 + nanos // 1_000


@jitted
def _is_pair(values: Bytes, pos: int, end: int) -> bool:
    """Whether this is an entry of a map: a key and a value, both of them texts."""
    pos = _after_text(values, pos, end, _KEY_TAG)
    if pos < 0:
        return False
    return _after_text(values, pos, end, _VALUE_TAG) == end


@jitted
def _after_text(values: Bytes, pos: int, end: int, wanted: int) -> int:
    """Where a field of text ends; -1 where another one comes, or it is no text."""
    tag, pos = read_varint(values, pos, end)
    if pos < 0 or tag != wanted:
        return -1
    size, pos = read_varint(values, pos, end)
    if pos < 0 or size < 0 or size > end - pos or not _is_text(values, pos, pos + size):
        return -1
    return pos + size


@jitted
def _is_text(values: Bytes, pos: int, end: int) -> bool:
    """Whether the bytes are UTF-8: the shortest form of each letter, and no half of a surrogate pair."""
    while pos < end:
        first = byte_at(values, pos)
        if first < 0x80:
            pos += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if more > end - pos - 1:
            return False
        least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        second = byte_at(values, pos + 1)
        if second < least or second > most:
            return False
        for at in range(pos + 2, pos + 1 + more):
            if byte_at(values, at) & 0xC0 != 0x80:
                return False
        pos += 1 + more
    return True
