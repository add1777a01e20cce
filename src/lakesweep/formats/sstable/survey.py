"""The structure of a small table in one compiled call: footer, metaindex, properties and index.

It takes only tables as lakeFS writes them, with an index of one level, and gives up at anything else. The plain reader
then says what is wrong, or reads what is larger or unusual. So nothing may pass here that the plain reader refuses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted, jitted_with_lock
from lakesweep.formats.octets import (
    Bytes,
    byte_at,
    copy_bytes,
    read_varint,
    varint_length,
    word_at,
)
from lakesweep.formats.sstable.blocks import (
    TRAILER_SIZE,
    entries_end,
    fixed32,
    measure_blocks,
    unpack_block,
    walk_index,
)

__all__ = [
    "FIRST_USER_SPAN",
    "FOUND_SIZE",
    "INDEX_SIZE",
    "INDEX_START",
    "LARGEST_BLOCK",
    "MOST_BLOCKS",
    "MUST_BE_ZERO",
    "NUMBERS",
    "SPACE",
    "TOTAL_SIZE",
    "USER_PROPERTIES",
    "USER_SPAN",
    "survey_table",
]

Ints = npt.NDArray[np.int64]

# Names of properties, without the prefix that all of RocksDB's have. These a table must have:
NUMBERS = (
    "num.entries",
    "num.data.blocks",
    "raw.key.size",
    "raw.value.size",
    "data.size",
    "index.size",
)
# Records that mean something other than "this key has this value"; lakeFS writes none.
MUST_BE_ZERO = ("deleted.keys", "merge.operands", "num.range-deletions", "filter.size")

# What `survey_table` finds, by place; the values of NUMBERS come first.
_NUM_DATA_BLOCKS = NUMBERS.index("num.data.blocks")
_REQUIRED = len(NUMBERS)
INDEX_SIZE, TOTAL_SIZE, LARGEST_BLOCK, USER_PROPERTIES = range(_REQUIRED, _REQUIRED + 4)
FIRST_USER_SPAN = _REQUIRED + 4
# Of each property that lakeFS itself set: start and end of its key and of its value, in the space with its rows end to end.
USER_SPAN = 4
_MOST_USER_PROPERTIES = 16
FOUND_SIZE = FIRST_USER_SPAN + USER_SPAN * _MOST_USER_PROPERTIES
MOST_BLOCKS = 256
# The rows: metaindex, then properties; their keys; the index.
_ROW = 8 << 10
_KEYS_START, INDEX_START = _ROW, 2 * _ROW
SPACE = (3, _ROW)

_ZEROS = (*MUST_BE_ZERO, "index.partitions", "top-level.index.size")
_COMPARATOR = _REQUIRED + len(_ZEROS)
_INDEX_TYPE = _COMPARATOR + 1
_KNOWN = (*NUMBERS, *_ZEROS, "comparator", "block.based.table.index.type")
_KNOWN_COUNT = len(_KNOWN)
_KNOWN_BYTES = np.frombuffer("".join(_KNOWN).encode(), np.uint8)
_KNOWN_ENDS = np.cumsum([0] + [len(name) for name in _KNOWN])
_PREFIX = np.uint64(int.from_bytes(b"rocksdb.", "little"))
_PREFIX_SIZE = 8
_BYTEWISE = np.frombuffer(b"leveldb.BytewiseComparator", np.uint8)
_PROPERTIES_KEY = np.frombuffer(b"rocksdb.properties", np.uint8)

_FOOTER_SIZE = 53
_CRC32C = 1
_VERSION = 2
_MAGIC = np.uint64(int.from_bytes(bytes.fromhex("f7cff485b741e288"), "little"))


@jitted_with_lock
def survey_table(data: Bytes, space: Bytes, handles: Ints, found: Ints) -> bool:
    """Fill `found` and the handles of the data blocks (offsets, lengths); False where the plain reader must look.

    `space` has SPACE's shape, `handles` two rows of MOST_BLOCKS, `found` FOUND_SIZE places.
    """
    if data.size < _FOOTER_SIZE or word_at(data, data.size - 8) != _MAGIC:
        return False
    footer = data.size - _FOOTER_SIZE
    version = data.size - 12
    if data[footer] != _CRC32C or fixed32(data, version) != _VERSION:
        return False
    metaindex, metaindex_size, pos = _read_handle(data, footer + 1, version)
    index, index_size, pos = _read_handle(data, pos, version)
    if pos < 0:
        return False
    # No checksum vouches for the footer, so only the one way to write it is accepted.
    written = varint_length(metaindex) + varint_length(metaindex_size)
    written += varint_length(index) + varint_length(index_size)
    if pos - footer - 1 != written:
        return False
    while pos < version:
        if data[pos] != 0:
            return False
        pos += 1

    if not _ends_at(metaindex, metaindex_size, footer):
        return False
    size = unpack_block(data, metaindex, metaindex_size, space[0])
    properties, properties_size = _find_properties(space[0], size)
    if not _ends_at(properties, properties_size, metaindex):
        return False
    size = unpack_block(data, properties, properties_size, space[0])
    if not _read_properties(space[0], size, space[1], found):
        return False
    if not _ends_at(index, index_size, properties):
        return False
    size = unpack_block(data, index, index_size, space[2])
    if size < 0:
        return False
    count, data_end = walk_index(space[2], size, 0, handles[0], handles[1], 0)
    if count < 0 or count != found[_NUM_DATA_BLOCKS] or data_end != index:
        return False
    total, largest, faulty = measure_blocks(data, handles[0, :count], handles[1, :count])
    found[INDEX_SIZE] = size
    found[TOTAL_SIZE] = total
    found[LARGEST_BLOCK] = largest
    return faulty < 0


@jitted
def _ends_at(offset: int, length: int, end: int) -> bool:
    """Whether a block (offset -1: none) and its trailer end where they should. No sum here can overflow."""
    return 0 <= offset <= end and 0 <= length <= end and offset + length + TRAILER_SIZE == end


@jitted
def _read_handle(data: Bytes, pos: int, end: int) -> tuple[int, int, int]:
    """(offset, length, position after them); the position is -1 where there are no two numbers ≥ 0."""
    offset, length = -1, -1
    if pos >= 0:
        offset, pos = read_varint(data, pos, end)
    if pos >= 0:
        length, pos = read_varint(data, pos, end)
    if pos < 0 or offset < 0 or length < 0:
        return -1, -1, -1
    return offset, length, pos


@jitted
def _find_properties(block: Bytes, size: int) -> tuple[int, int]:
    """Offset and length of the properties block, the only one that a metaindex may list; (-1, -1) where it is not so."""
    end = entries_end(block, size)
    key_size = _PROPERTIES_KEY.size
    if end < 3 + key_size or block[0] != 0 or block[1] != key_size:
        return -1, -1
    value_size, pos = read_varint(block, 2, end)
    if pos < 0 or value_size < 0 or value_size != end - pos - key_size:
        return -1, -1
    if not _is_text(block, pos, key_size, _PROPERTIES_KEY, 0):
        return -1, -1
    offset, length, pos = _read_handle(block, pos + key_size, end)
    return (offset, length) if pos == end else (-1, -1)


@jitted
def _read_properties(block: Bytes, size: int, keys: Bytes, found: Ints) -> bool:
    """Read the numbers that matter, and where the properties lie that are not RocksDB's own."""
    end = entries_end(block, size)
    if end < 0:
        return False
    seen = 0
    users = 0
    key = 0
    key_size = 0
    pos = 0
    while pos < end:
        shared, pos = read_varint(block, pos, end)
        unshared = value_size = 0
        if pos >= 0:
            unshared, pos = read_varint(block, pos, end)
        if pos >= 0:
            value_size, pos = read_varint(block, pos, end)
        if pos < 0 or shared < 0 or shared > key_size or unshared < 0 or unshared > end - pos:
            return False
        if value_size < 0 or value_size > end - pos - unshared:
            return False
        if unshared > keys.size - key - shared:
            return False
        copy_bytes(block, pos, unshared, keys, key + shared)
        key_size = shared + unshared
        pos += unshared
        value = pos
        pos += value_size
        if key_size >= _PREFIX_SIZE and word_at(keys, key) == _PREFIX:
            place = _known(keys, key + _PREFIX_SIZE, key_size - _PREFIX_SIZE)
            if place >= 0 and not _take_known(block, value, value_size, place, found):
                return False
            if 0 <= place < _REQUIRED:
                seen |= 1 << place
            continue
        if users == _MOST_USER_PROPERTIES or key_size > keys.size - key - key_size:
            return False
        span = FIRST_USER_SPAN + USER_SPAN * users
        found[span] = _KEYS_START + key
        found[span + 1] = _KEYS_START + key + key_size
        found[span + 2] = value
        found[span + 3] = pos
        users += 1
        # This key stays where it is; the next one, which may share its beginning, is put behind it.
        copy_bytes(keys, key, key_size, keys, key + key_size)
        key += key_size
    found[USER_PROPERTIES] = users
    return seen == (1 << _REQUIRED) - 1


@jitted
def _take_known(block: Bytes, value: int, size: int, place: int, found: Ints) -> bool:
    """Keep a number that matters; False for a value that lakeFS does not write there."""
    if place == _COMPARATOR:
        return size == _BYTEWISE.size and _is_text(block, value, size, _BYTEWISE, 0)
    if place == _INDEX_TYPE:
        return size == 4 and fixed32(block, value) == 0
    number, pos = read_varint(block, value, value + size)
    if pos != value + size or number < 0:
        return False
    if place >= _REQUIRED:
        return number == 0
    found[place] = number
    return True


@jitted
def _known(keys: Bytes, start: int, size: int) -> int:
    """The place of a name in _KNOWN, or -1."""
    for place in range(_KNOWN_COUNT):
        first = _KNOWN_ENDS[place]
        if _KNOWN_ENDS[place + 1] - first == size and _is_text(
            keys, start, size, _KNOWN_BYTES, first
        ):
            return place
    return -1


@jitted
def _is_text(data: Bytes, start: int, size: int, text: Bytes, first: int) -> bool:
    """Whether `size` bytes from `start` are those of `text` from `first`. The caller has checked that they are there."""
    same = 0
    while same < size and byte_at(data, start + same) == byte_at(text, first + same):
        same += 1
    return same == size
