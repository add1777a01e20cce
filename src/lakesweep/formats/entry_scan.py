"""The hot road: one compiled pass over a range file, from packed blocks to columns of addresses or their hashes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.hashing import xxh64
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes, read_varint, word_at
from lakesweep.formats.sstable import faults
from lakesweep.formats.sstable.blocks import unpack_block, walk_block

__all__ = [
    "ADDRESS_SIZE",
    "ADDRESS_START",
    "ADDRESS_TYPE",
    "FOUND_FIELDS",
    "RELATIVE",
    "SECONDS",
    "read_value",
    "scan_addresses",
    "scan_hashes",
    "scan_sums",
]

Ints = npt.NDArray[np.int64]

# What `read_value` finds, by place.
ADDRESS_START, ADDRESS_SIZE, ADDRESS_TYPE, SIZE, SECONDS, NANOS, HAS_TIME = range(7)
E_TAG_START, E_TAG_SIZE, FOUND_FIELDS = range(7, 10)
BY_PREFIX, RELATIVE, FULL = range(3)

_TOO_MANY = -faults.TOO_MANY
_VALUE_LENGTH = -faults.VALUE_LENGTH
_PROTOBUF = -faults.PROTOBUF
_ADDRESS_TYPE = -faults.ADDRESS_TYPE
_TIMESTAMP = -faults.TIMESTAMP
_LONGEST_PART = 640 << 16  # lakeFS's limit for a record's identity and data
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_LEN = 2
_MD5_DIGITS = 32
_PERCENT, _DOT, _SLASH = ord("%"), ord("."), ord("/")
_USUAL_SIZE = 46
_DATA = np.uint64(int.from_bytes(b"data/", "little"))
_FIRST_FIVE = np.uint64((1 << 40) - 1)
_ZEROS, _HIGH_BITS = np.uint64(0x3030303030303030), np.uint64(0x8080808080808080)
_NONE = np.uint64(0)


@jitted
def scan_hashes(
    data: Bytes,
    offsets: Ints,
    lengths: Ints,
    block: Bytes,
    last_key: Bytes,
    walk: Ints,
    found_in_entry: Ints,
    hashes: npt.NDArray[np.uint64],
    sizes: Ints,
    full_ends: Ints,
    full: Bytes,
) -> tuple[int, int, int, int, int, int]:
    """Hash relative addresses, each with its size, and collect full ones as they are.

    Returns (number of records or a fault, number of full addresses, number of names at the root, number of relative
    addresses that a server may read in several ways, index of the block, byte in it).
    """
    relative_count = 0
    root_count = 0
    several_count = 0
    full_count = 0
    full_size = 0
    last_key_size = -1
    for number in range(offsets.size):
        size = unpack_block(data, offsets[number], lengths[number], block)
        if size < 0:
            return size, 0, 0, 0, number, -1
        found, last_key_size, _, where = walk_block(
            block, size, last_key, last_key_size, False, block, 0, walk[0], walk[1], walk[2]
        )
        if found < 0:
            return found, 0, 0, 0, number, where
        if found > hashes.size - relative_count - full_count:
            return _TOO_MANY, 0, 0, 0, number, -1
        for i in range(found):
            status = read_value(block, walk[1, i], walk[2, i], found_in_entry)
            if status < 0:
                return status, 0, 0, 0, number, walk[1, i]
            start = found_in_entry[ADDRESS_START]
            length = found_in_entry[ADDRESS_SIZE]
            if _is_full(block, start, length, found_in_entry[ADDRESS_TYPE]):
                if full_size + length > full.size:
                    return _TOO_MANY, 0, 0, 0, number, start
                copy_bytes(block, start, length, full, full_size)
                full_size += length
                full_ends[full_count] = full_size
                full_count += 1
            else:
                hashes[relative_count] = xxh64(block, start, length)
                sizes[relative_count] = found_in_entry[SIZE]
                relative_count += 1
                root_count += _is_root_name(block, start, length)
                several_count += _has_several_readings(block, start, length)
    return relative_count + full_count, full_count, root_count, several_count, -1, -1


@jitted
def scan_addresses(
    data: Bytes,
    offsets: Ints,
    lengths: Ints,
    block: Bytes,
    last_key: Bytes,
    walk: Ints,
    found_in_entry: Ints,
    address_offsets: npt.NDArray[np.int32],
    addresses: Bytes,
    address_types: Bytes,
    sizes: Ints,
    microseconds: Ints,
    has_time: npt.NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Fill the columns; returns (number of records or a fault, index of the block, byte in it)."""
    count = 0
    addresses_size = 0
    last_key_size = -1
    address_offsets[0] = 0
    for number in range(offsets.size):
        size = unpack_block(data, offsets[number], lengths[number], block)
        if size < 0:
            return size, number, -1
        found, last_key_size, _, where = walk_block(
            block, size, last_key, last_key_size, False, block, 0, walk[0], walk[1], walk[2]
        )
        if found < 0:
            return found, number, where
        if found > sizes.size - count:
            return _TOO_MANY, number, -1
        for i in range(found):
            status = read_value(block, walk[1, i], walk[2, i], found_in_entry)
            if status < 0:
                return status, number, walk[1, i]
            start = found_in_entry[ADDRESS_START]
            length = found_in_entry[ADDRESS_SIZE]
            if addresses_size + length > addresses.size:
                return _TOO_MANY, number, start
            copy_bytes(block, start, length, addresses, addresses_size)
            addresses_size += length
            address_offsets[count + 1] = addresses_size
            address_types[count] = found_in_entry[ADDRESS_TYPE]
            sizes[count] = found_in_entry[SIZE]
            microseconds[count] = (
                found_in_entry[SECONDS] * 1_000_000 + found_in_entry[NANOS] // 1_000
            )
            has_time[count] = found_in_entry[HAS_TIME] == 1
            count += 1
    return count, -1, -1


@jitted
def scan_sums(
    data: Bytes,
    offsets: Ints,
    lengths: Ints,
    block: Bytes,
    last_key: Bytes,
    walk: Ints,
    found_in_entry: Ints,
    sizes: Ints,
    sums: npt.NDArray[np.uint64],
    is_md5: npt.NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Size and e_tag of every entry; returns (number of records or a fault, index of the block, byte in it)."""
    count = 0
    last_key_size = -1
    for number in range(offsets.size):
        size = unpack_block(data, offsets[number], lengths[number], block)
        if size < 0:
            return size, number, -1
        found, last_key_size, _, where = walk_block(
            block, size, last_key, last_key_size, False, block, 0, walk[0], walk[1], walk[2]
        )
        if found < 0:
            return found, number, where
        if found > sizes.size - count:
            return _TOO_MANY, number, -1
        for i in range(found):
            status = read_value(block, walk[1, i], walk[2, i], found_in_entry)
            if status < 0:
                return status, number, walk[1, i]
            sizes[count] = found_in_entry[SIZE]
            is_md5[count], sums[count] = _read_md5(
                block, found_in_entry[E_TAG_START], found_in_entry[E_TAG_SIZE]
            )
            count += 1
    return count, -1, -1


@jitted
def _read_md5(block: Bytes, start: int, size: int) -> tuple[bool, np.uint64]:
    """Whether a text has the form of an MD5 sum, and its first eight bytes as a number."""
    number = np.uint64(0)
    if size != _MD5_DIGITS:
        return False, number
    for i in range(_MD5_DIGITS):
        letter = np.int64(block[np.uintp(start + i)])
        if 48 <= letter <= 57:
            digit = letter - 48
        elif 97 <= letter <= 102:
            digit = letter - 87
        else:
            return False, np.uint64(0)
        if i < _MD5_DIGITS // 2:
            number = number << np.uint64(4) | np.uint64(digit)
    return True, number


@jitted
def read_value(block: Bytes, start: int, size: int, found: Ints) -> int:
    """Pass over a record's identity and read the Entry behind it; returns 0 or a fault."""
    end = start + size
    pos = start
    part_end = start
    for _ in range(2):
        zigzag, pos = read_varint(block, part_end, end)
        length = ((zigzag >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(zigzag & 1)
        if pos < 0 or length < 0 or length > _LONGEST_PART or length > end - pos:
            return _VALUE_LENGTH
        part_end = pos + length
    return _read_entry(block, pos, part_end, found)


@jitted
def _read_entry(block: Bytes, pos: int, end: int, found: Ints) -> int:
    for i in range(FOUND_FIELDS):
        found[i] = 0
    while pos < end:
        tag, pos = read_varint(block, pos, end)
        if pos < 0:
            return _PROTOBUF
        field = tag >> 3
        wire = tag & 7
        if field <= 0:
            return _PROTOBUF
        if (field == 3 or field == 6) != (wire == 0) and field <= 7:
            return _PROTOBUF
        if wire == 0:
            number, pos = read_varint(block, pos, end)
            if pos < 0:
                return _PROTOBUF
            if field == 3:
                found[SIZE] = number
            elif field == 6:
                if number < 0 or number > FULL:
                    return _ADDRESS_TYPE
                found[ADDRESS_TYPE] = number
            continue
        start, length = _field_bounds(block, pos, end, wire)
        if start < 0 or (field <= 7 and wire != _LEN):
            return _PROTOBUF
        pos = start + length
        if field == 1:
            found[ADDRESS_START] = start
            found[ADDRESS_SIZE] = length
        elif field == 4:
            found[E_TAG_START] = start
            found[E_TAG_SIZE] = length
        elif field == 2:
            status = _read_timestamp(block, start, pos, found)
            if status < 0:
                return status
    return 0


@jitted
def _read_timestamp(block: Bytes, pos: int, end: int, found: Ints) -> int:
    found[HAS_TIME] = 1
    while pos < end:
        tag, pos = read_varint(block, pos, end)
        if pos < 0 or tag >> 3 <= 0:
            return _PROTOBUF
        wire = tag & 7
        if wire == 0:
            number, pos = read_varint(block, pos, end)
            if pos < 0:
                return _PROTOBUF
            if tag >> 3 == 1:
                found[SECONDS] = number
            elif tag >> 3 == 2:
                found[NANOS] = number
        else:
            start, length = _field_bounds(block, pos, end, wire)
            if start < 0 or tag >> 3 <= 2:
                return _PROTOBUF
            pos = start + length
    if found[NANOS] < 0 or found[NANOS] >= 1_000_000_000:
        return _TIMESTAMP
    # As `time_of_second` does.
    found[SECONDS] = min(max(found[SECONDS], _FIRST_SECOND), _LAST_SECOND)
    return 0


@jitted
def _field_bounds(block: Bytes, pos: int, end: int, wire: int) -> tuple[int, int]:
    """(start, length) of a field that is not a varint; the start is -1 if it does not fit."""
    length = 0
    if wire == _LEN:
        length, pos = read_varint(block, pos, end)
    elif wire == 1:
        length = 8
    elif wire == 5:
        length = 4
    else:
        return -1, 0
    if pos < 0 or length < 0 or length > end - pos:
        return -1, 0
    return pos, length


@jitted
def _is_root_name(block: Bytes, start: int, length: int) -> bool:
    """Whether an address is 32 hex digits, as servers named objects at the root before there were slices."""
    if length != 32:
        return False
    for i in range(length):
        byte = block[start + i]
        if not (48 <= byte <= 57 or 97 <= byte <= 102):
            return False
    return True


@jitted
def _has_several_readings(block: Bytes, start: int, length: int) -> bool:
    """Whether a server may decode or fold a relative address on its way to the store."""
    if length == _USUAL_SIZE and _is_usual(block, start):
        return False
    before = _SLASH
    for i in range(length):
        byte = byte_at(block, start + i)
        if byte == _PERCENT or (before == _SLASH and byte in (_SLASH, _DOT)):
            return True
        before = byte
    return before == _SLASH


@jitted
def _is_usual(block: Bytes, start: int) -> bool:
    """Whether 46 bytes are `data/`, 20 of letters and digits, a slash and 20 more: eight at a time, as nearly all are."""
    if word_at(block, start) & _FIRST_FIVE != _DATA or byte_at(block, start + 25) != _SLASH:
        return False
    low = _below_zero(block, start + 5) | _below_zero(block, start + 13)
    low |= _below_zero(block, start + 17) | _below_zero(block, start + 26)
    low |= _below_zero(block, start + 34) | _below_zero(block, start + 38)
    return bool(low == _NONE)


@jitted
def _below_zero(block: Bytes, pos: int) -> np.uint64:
    """Other than 0 where one of eight bytes sorts before the digit 0, as slashes, dots and percent signs do."""
    word = word_at(block, pos)
    return (word - _ZEROS) & ~word & _HIGH_BITS


@jitted
def _is_full(block: Bytes, start: int, length: int, address_type: int) -> bool:
    """Whether an address is a URI. Old entries do not say, so a scheme and :// in front decide."""
    if address_type != BY_PREFIX:
        return address_type == FULL
    for i in range(length):
        byte = block[start + i]
        if byte == 58:  # ":"
            return (
                i > 0
                and length - i >= 3
                and block[start + i + 1] == 47
                and block[start + i + 2] == 47
            )
        is_letter = 97 <= (byte | 32) <= 122
        is_other = 48 <= byte <= 57 or byte == 43 or byte == 45 or byte == 46
        if not (is_letter or (i > 0 and is_other)):
            return False
    return False
