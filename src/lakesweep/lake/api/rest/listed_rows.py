"""Rows of a listing as JSON, straight from stored values, compiled: a listing is made of nothing but these.

Rows that need more than copying (escapes, user metadata, addresses of an old kind) are left to the ordinary way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from lakesweep.formats.entry_scan import (
    ADDRESS_SIZE,
    ADDRESS_START,
    ADDRESS_TYPE,
    FOUND_FIELDS,
    FULL,
    RELATIVE,
    SECONDS,
    SIZE,
    read_value,
)
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, copy_bytes, read_varint
from lakesweep.lake.api.rest.wire import DEFAULT_CONTENT_TYPE
from lakesweep.lake.context import full_address
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.values import Repository

__all__ = ["render_rows"]

Ints = npt.NDArray[np.int64]

# The texts between a row's values, in the order of `wire.object_document`.
_TEXTS = (
    b'{"path":"',
    b'","path_type":"object","physical_address":"',
    b'","checksum":"',
    b'","mtime":',
    b',"size_bytes":',
    b',"content_type":"',
    b'"},',
    DEFAULT_CONTENT_TYPE.encode(),
)
_TEXT = np.frombuffer(b"".join(_TEXTS), np.uint8)
_TEXT_ENDS = np.cumsum([len(text) for text in _TEXTS])
_MOST_DIGITS = 20
_ROOM = len(_TEXT) + 2 * _MOST_DIGITS + 16
_DEFAULT_TYPE = 7
_E_TAG, _METADATA, _CONTENT_TYPE = 4, 5, 7


def render_rows(repository: Repository, rows: Sequence[Row]) -> bytes | None:
    """The rows' JSON documents with commas between; None when one of them is not plain."""
    parts = list(chain.from_iterable(rows))
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    data = np.frombuffer(b"".join(parts), np.uint8)
    namespace = json.dumps(full_address(repository, ""), ensure_ascii=False)[1:-1].encode()
    prefix = np.frombuffer(namespace, np.uint8)
    target = np.empty(data.size + len(rows) * (_ROOM + prefix.size) + 1, np.uint8)
    found = np.empty(FOUND_FIELDS, np.int64)
    size = _render(data, ends, prefix, _TEXT, _TEXT_ENDS, found, target)
    # The last row's comma goes.
    return None if size < 0 else target[: max(0, size - 1)].tobytes()


@jitted
def _render(
    data: Bytes,
    ends: Ints,
    prefix: Bytes,
    text: Bytes,
    text_ends: Ints,
    found: Ints,
    target: Bytes,
) -> int:
    """Returns the number of bytes written, or -1."""
    at = 0
    start = 0
    for row in range(ends.size // 2):
        key_end = ends[2 * row]
        end = ends[2 * row + 1]
        key_start = start
        start = end
        if read_value(data, key_end, end - key_end, found) < 0:
            return -1
        e_tag, e_tag_size, kind, kind_size, is_plain = _find_texts(data, key_end, end)
        if not is_plain or found[SECONDS] < 0 or found[SIZE] < 0:
            return -1
        address = found[ADDRESS_START]
        address_size = found[ADDRESS_SIZE]
        if found[ADDRESS_TYPE] != RELATIVE and found[ADDRESS_TYPE] != FULL:
            return -1
        if not (
            _is_plain(data, key_start, key_end - key_start)
            and _is_plain(data, address, address_size)
            and _is_plain(data, e_tag, e_tag_size)
            and _is_plain(data, kind, kind_size)
        ):
            return -1
        at = _put_text(text, text_ends, 0, target, at)
        at = _put(data, key_start, key_end - key_start, target, at)
        at = _put_text(text, text_ends, 1, target, at)
        if found[ADDRESS_TYPE] == RELATIVE:
            at = _put(prefix, 0, prefix.size, target, at)
        at = _put(data, address, address_size, target, at)
        at = _put_text(text, text_ends, 2, target, at)
        at = _put(data, e_tag, e_tag_size, target, at)
        at = _put_text(text, text_ends, 3, target, at)
        at = _put_number(found[SECONDS], target, at)
        at = _put_text(text, text_ends, 4, target, at)
        at = _put_number(found[SIZE], target, at)
        at = _put_text(text, text_ends, 5, target, at)
        if kind_size:
            at = _put(data, kind, kind_size, target, at)
        else:
            at = _put_text(text, text_ends, _DEFAULT_TYPE, target, at)
        at = _put_text(text, text_ends, 6, target, at)
    return at


@jitted
def _find_texts(data: Bytes, start: int, end: int) -> tuple[int, int, int, int, bool]:
    """(start, size) of checksum and content type in a value that `read_value` found right; False with metadata."""
    pos = start
    part_end = start
    for _ in range(2):
        zigzag, pos = read_varint(data, part_end, end)
        part_end = pos + (zigzag >> 1)
    e_tag, e_tag_size, kind, kind_size = 0, 0, 0, 0
    while pos < part_end:
        tag, pos = read_varint(data, pos, part_end)
        field = tag >> 3
        wire = tag & 7
        if pos < 0 or field == _METADATA or (wire != 0 and wire != 2):
            return 0, 0, 0, 0, False
        number, pos = read_varint(data, pos, part_end)
        if pos < 0:
            return 0, 0, 0, 0, False
        if wire == 2:
            if number < 0 or number > part_end - pos:
                return 0, 0, 0, 0, False
            if field == _E_TAG:
                e_tag, e_tag_size = pos, number
            elif field == _CONTENT_TYPE:
                kind, kind_size = pos, number
            pos += number
    return e_tag, e_tag_size, kind, kind_size, True


@jitted
def _is_plain(data: Bytes, start: int, size: int) -> bool:
    """Whether JSON has these bytes as they are, whatever they stand for."""
    for i in range(start, start + size):
        byte = data[i]
        if byte < 32 or byte > 126 or byte == 34 or byte == 92:
            return False
    return True


@jitted
def _put(source: Bytes, start: int, size: int, target: Bytes, at: int) -> int:
    copy_bytes(source, start, size, target, at)
    return at + size


@jitted
def _put_text(text: Bytes, text_ends: Ints, number: int, target: Bytes, at: int) -> int:
    start = text_ends[number - 1] if number else 0
    return _put(text, start, text_ends[number] - start, target, at)


@jitted
def _put_number(number: int, target: Bytes, at: int) -> int:
    digits = 1
    rest = number // 10
    while rest:
        digits += 1
        rest //= 10
    for place in range(at + digits - 1, at - 1, -1):
        target[place] = 48 + number % 10
        number //= 10
    return at + digits
