"""64-bit hashes of physical addresses: xxHash64, seed 0, over the UTF-8 bytes.

Both sides of the anti-join must hash with this one function. A collision can only make garbage look live, so it can
only keep; two *different* functions would make live data look like garbage.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, word_at

__all__ = ["hash_address", "hash_addresses", "text_buffers", "xxh64"]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def hash_address(address: str) -> int:
    """The hash of one address, as an unsigned 64-bit number."""
    raw = np.frombuffer(address.encode(), dtype=np.uint8)
    with np.errstate(over="ignore"):
        return int(xxh64(raw, 0, len(raw)))


def hash_addresses(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """The hashes of a string column, in order. An address that is null is an error: it would be lost."""
    if isinstance(array, pa.ChunkedArray):
        parts = [hash_addresses(chunk) for chunk in array.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    if len(array) == 0:
        return np.empty(0, np.uint64)
    data, offsets = text_buffers(array, "addresses")
    hashes = np.empty(len(array), np.uint64)
    with np.errstate(over="ignore"):
        _hash_column(data, offsets, hashes)
    return hashes


def text_buffers(array: pa.Array, what: str) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """The bytes of a text column that is not empty, and where each text begins and the last one ends."""
    if array.null_count:
        raise ValueError(f"can't hash a column of {what} with nulls in it")
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.string())
    _, offsets_buffer, data_buffer = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, dtype=width)[
        array.offset : array.offset + len(array) + 1
    ]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    data.flags.writeable = False  # one type for compiled code, whoever made the column
    return data, offsets.astype(np.int64)


@jitted
def _hash_column(
    data: Bytes, offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]
) -> None:
    for row in range(hashes.size):
        hashes[row] = xxh64(data, offsets[row], offsets[row + 1] - offsets[row])


@jitted
def xxh64(data: Bytes, start: int, length: int) -> np.uint64:
    """xxHash64, seed 0, of `length` bytes from `start`. The caller has checked that they are there."""
    pos = start
    end = start + length
    if length >= 32:
        v1 = _P1 + _P2
        v2 = _P2
        v3 = np.uint64(0)
        v4 = np.uint64(0) - _P1
        while pos + 32 <= end:
            v1 = _round(v1, word_at(data, pos))
            v2 = _round(v2, word_at(data, pos + 8))
            v3 = _round(v3, word_at(data, pos + 16))
            v4 = _round(v4, word_at(data, pos + 24))
            pos += 32
        h = _rotl(v1, 1) + _rotl(v2, 7) + _rotl(v3, 12) + _rotl(v4, 18)
        h = _merge(_merge(_merge(_merge(h, v1), v2), v3), v4)
    else:
        h = _P5
    h += np.uint64(length)
    while pos + 8 <= end:
        h = _rotl(h ^ _round(np.uint64(0), word_at(data, pos)), 27) * _P1 + _P4
        pos += 8
    if pos + 4 <= end:
        word = np.uint64(0)
        for i in range(4):
            word |= np.uint64(byte_at(data, pos + i)) << np.uint64(8 * i)
        h = _rotl(h ^ (word * _P1), 23) * _P2 + _P3
        pos += 4
    while pos < end:
        h = _rotl(h ^ (np.uint64(byte_at(data, pos)) * _P5), 11) * _P1
        pos += 1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@jitted
def _rotl(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@jitted
def _round(accumulator: np.uint64, word: np.uint64) -> np.uint64:
    return _rotl(accumulator + word * _P2, 31) * _P1


@jitted
def _merge(h: np.uint64, accumulator: np.uint64) -> np.uint64:
    return (h ^ _round(np.uint64(0), accumulator)) * _P1 + _P4
