"""Bytes in compiled code: loads, stores, copies and varints.

Every caller has checked its bounds. Positions become unsigned here because compiled code would otherwise test each index
for being negative (Python counts those from the end), which keeps eight byte loads from becoming one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted

__all__ = [
    "Bytes",
    "byte_at",
    "copy_ahead",
    "copy_bytes",
    "put_varint",
    "read_varint",
    "varint_length",
    "word_at",
]

Bytes = npt.NDArray[np.uint8]

_U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uintp(i) for i in range(1, 9))
_U16 = np.uintp(16)
_S8, _S16, _S24, _S32, _S40, _S48, _S56 = (np.uint64(8 * i) for i in range(1, 8))


@jitted
def byte_at(data: Bytes, pos: int) -> int:
    """One byte, as a number wide enough to be shifted."""
    return np.int64(data[np.uintp(pos)])  # type: ignore[return-value]  # an int to its compiled callers


@jitted
def word_at(data: Bytes, pos: int) -> np.uint64:
    """Eight bytes, the first one lowest."""
    at = np.uintp(pos)
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _U1]) << _S8
        | np.uint64(data[at + _U2]) << _S16
        | np.uint64(data[at + _U3]) << _S24
        | np.uint64(data[at + _U4]) << _S32
        | np.uint64(data[at + _U5]) << _S40
        | np.uint64(data[at + _U6]) << _S48
        | np.uint64(data[at + _U7]) << _S56
    )


@jitted
def copy_bytes(source: Bytes, start: int, count: int, target: Bytes, at: int) -> None:
    """Copy `count` bytes from `source[start]` to `target[at]`. Within one buffer the two may lie 8 bytes apart or more."""
    read = np.uintp(start)
    write = np.uintp(at)
    for _ in range(count >> 3):
        _copy_word(source, read, target, write)
        read += _U8
        write += _U8
    for _ in range(count & 7):
        target[write] = source[read]
        read += _U1
        write += _U1


@jitted
def copy_ahead(source: Bytes, start: int, count: int, target: Bytes, at: int) -> None:
    """Copy `count` bytes into a buffer that is filled from front to back: what comes after them may be scribbled over.

    Copies then end without a loop over single bytes, whose number of rounds the processor would have to guess.
    """
    if start + count + 16 <= source.size and at + count + 16 <= target.size:
        read = np.uintp(start)
        write = np.uintp(at)
        _copy_word(source, read, target, write)
        _copy_word(source, read + _U8, target, write + _U8)
        while count > 16:
            count -= 16
            read += _U16
            write += _U16
            _copy_word(source, read, target, write)
            _copy_word(source, read + _U8, target, write + _U8)
    else:
        copy_bytes(source, start, count, target, at)


@jitted
def _copy_word(source: Bytes, read: np.uintp, target: Bytes, write: np.uintp) -> None:
    # All loaded before any is stored, so that each side becomes one instruction.
    b0 = source[read]
    b1 = source[read + _U1]
    b2 = source[read + _U2]
    b3 = source[read + _U3]
    b4 = source[read + _U4]
    b5 = source[read + _U5]
    b6 = source[read + _U6]
    b7 = source[read + _U7]
    target[write] = b0
    target[write + _U1] = b1
    target[write + _U2] = b2
    target[write + _U3] = b3
    target[write + _U4] = b4
    target[write + _U5] = b5
    target[write + _U6] = b6
    target[write + _U7] = b7


@jitted
def read_varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(the 64 bits read as a signed number, position after it); the position is -1 if cut short or too long."""
    if pos < end and byte_at(data, pos) < 0x80:  # most are this short
        return byte_at(data, pos), pos + 1
    value = 0
    shift = 0
    while pos < end:
        byte = byte_at(data, pos)
        pos += 1
        if shift == 63 and byte > 1:
            return value, -1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    return value, -1


@jitted
def put_varint(out: Bytes, pos: int, value: int) -> int:
    """Write a number ≥ 0 and return the position after it."""
    while value >= 0x80:
        out[pos] = (value & 0x7F) | 0x80
        value >>= 7
        pos += 1
    out[pos] = value
    return pos + 1


@jitted
def varint_length(value: int) -> int:
    """How many bytes a number ≥ 0 takes."""
    length = 1
    while value >= 0x80:
        value >>= 7
        length += 1
    return length
