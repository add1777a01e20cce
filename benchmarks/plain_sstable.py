"""A range reader in plain Python, the yardstick of bench_sstable.py: what one would write first.

It checks next to nothing, takes snappy from a library, and reads just enough of each entry. So it is as fast as plain
Python gets; the reader it is compared with checks every checksum and every bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import cramjam

__all__ = ["read_addresses"]

_FOOTER_SIZE = 53
_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_TWO_LEVEL = 2


def read_addresses(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(address, address type, size) of each entry of a range file."""
    footer = data[-_FOOTER_SIZE:]
    offset, pos = _varint(footer, 1)
    length, pos = _varint(footer, pos)
    metaindex = dict(_entries(_block(data, offset, length)))
    offset, pos = _varint(footer, pos)
    length, pos = _varint(footer, pos)
    index = _block(data, offset, length)
    offset, pos = _varint(metaindex[b"rocksdb.properties"], 0)
    length, _ = _varint(metaindex[b"rocksdb.properties"], pos)
    properties = dict(_entries(_block(data, offset, length)))
    indexes = [index]
    if properties[_INDEX_TYPE][0] == _TWO_LEVEL:
        indexes = [_block(data, *_handle(value)) for _, value in _entries(index)]
    for index in indexes:
        for _, handle in _entries(index):
            for _, value in _entries(_block(data, *_handle(handle))):
                yield _entry(value)


def _entry(value: bytes) -> tuple[bytes, int, int]:
    zigzag, pos = _varint(value, 0)
    zigzag, pos = _varint(value, pos + (zigzag >> 1))
    end = pos + (zigzag >> 1)
    address, address_type, size = b"", 0, 0
    while pos < end:
        tag, pos = _varint(value, pos)
        number, pos = _varint(value, pos)
        if tag & 7 == 2:
            if tag >> 3 == 1:
                address = value[pos : pos + number]
            pos += number
        elif tag >> 3 == 3:
            size = number
        elif tag >> 3 == 6:
            address_type = number
    return address, address_type, size


def _block(data: bytes, offset: int, length: int) -> bytes:
    payload = data[offset : offset + length]
    return bytes(cramjam.snappy.decompress_raw(payload)) if data[offset + length] else payload


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    pos, key = 0, b""
    while pos < end:
        shared, pos = _varint(block, pos)
        unshared, pos = _varint(block, pos)
        size, pos = _varint(block, pos)
        key = key[:shared] + block[pos : pos + unshared]
        pos += unshared
        yield key, block[pos : pos + size]
        pos += size


def _handle(value: bytes) -> tuple[int, int]:
    offset, pos = _varint(value, 0)
    return offset, _varint(value, pos)[0]


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    value, shift = byte & 0x7F, 7
    while True:
        pos += 1
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos + 1
        shift += 7
