"""Unpacking of blocks. However small a block is packed, it never unpacks to more than `MOST_BYTES`."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

import cramjam
import numpy as np

from lakesweep.errors import FormatError
from lakesweep.formats.avro.faults import avro_error

__all__ = ["MOST_BYTES", "unpacker"]

Unpack = Callable[[memoryview], bytes | memoryview]

MOST_BYTES = 256 << 20  # writers begin a new block after some ten thousand bytes
_CRC_SIZE = 4
_MOST_DEFLATED = 1100  # times smaller than unpacked; deflate can't do more


def unpacker(codec: str) -> Unpack | None:
    """The function that unpacks one block of this codec; None where blocks are not packed.

    It raises FormatError for damage, and nothing else.
    """
    if codec == "null":
        return None
    try:
        return _CODECS[codec]
    except KeyError:
        raise avro_error(f"its codec {codec[:40]!r} is none of {', '.join(_CODECS)}") from None


def _unpack_deflate(packed: memoryview) -> bytes:
    """Bytes behind the stream are let be: some writers (fastavro) leave most of zlib's checksum there."""
    if len(packed) < MOST_BYTES // _MOST_DEFLATED:
        try:
            return zlib.decompress(packed, wbits=-15)
        except zlib.error as error:
            raise _damaged("deflate") from error
    stream = zlib.decompressobj(wbits=-15)
    try:
        unpacked = stream.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise _damaged("deflate") from error
    return _whole("deflate", unpacked, is_whole=stream.eof)


def _unpack_bzip2(packed: memoryview) -> bytes:
    stream = bz2.BZ2Decompressor()
    try:
        unpacked = stream.decompress(packed, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise _damaged("bzip2") from error
    return _whole("bzip2", unpacked, is_whole=stream.eof and not stream.unused_data)


def _unpack_xz(packed: memoryview) -> bytes:
    stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_BYTES)
    try:
        unpacked = stream.decompress(packed, MOST_BYTES)
    except lzma.LZMAError as error:
        raise _damaged("xz") from error
    return _whole("xz", unpacked, is_whole=stream.eof and not stream.unused_data)


def _unpack_snappy(packed: memoryview) -> bytes:
    if len(packed) < _CRC_SIZE:
        raise _damaged("snappy")
    stream, checksum = packed[:-_CRC_SIZE], packed[-_CRC_SIZE:]
    try:
        if cramjam.snappy.decompress_raw_len(stream) > MOST_BYTES:
            raise _damaged("snappy")
        unpacked = bytes(cramjam.snappy.decompress_raw(stream))
    except cramjam.DecompressionError as error:
        raise _damaged("snappy") from error
    return _whole("snappy", unpacked, is_whole=zlib.crc32(unpacked) == int.from_bytes(checksum))


def _unpack_zstandard(packed: memoryview) -> memoryview:
    """zstd streams need not say how long they are, so room is made larger until it is enough."""
    room = min(max(1 << 16, 8 * len(packed)), MOST_BYTES)
    while True:
        out = np.empty(room, np.uint8).data  # room that is not used costs nothing
        try:
            size = cramjam.zstd.decompress_into(packed, out)
        except cramjam.DecompressionError as error:
            # Too little room and damage look alike; damage shows again, and soon, with more of it.
            if room == MOST_BYTES:
                raise _damaged("zstandard") from error
            room = min(8 * room, MOST_BYTES)
            continue
        return out[:size]


def _whole(codec: str, unpacked: bytes, *, is_whole: bool) -> bytes:
    if not is_whole:
        raise _damaged(codec)
    return unpacked


def _damaged(codec: str) -> FormatError:
    return avro_error(f"a block does not unpack as {codec}")


_CODECS: dict[str, Unpack] = {
    "deflate": _unpack_deflate,
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
    "bzip2": _unpack_bzip2,
    "xz": _unpack_xz,
}
