"""Bytes and varints in compiled code, where all numbers are signed and 64 bits wide."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted

__all__ = ["byte_at", "put_varint", "read_varint", "varint_length"]

Bytes = npt.NDArray[np.uint8]


@jitted
def byte_at(data: Bytes, pos: int) -> int:
    """One byte as a number wide enough to be shifted. The caller has checked that it is there."""
    return np.int64(data[pos])  # type: ignore[return-value]  # an int to its compiled callers


@jitted
def read_varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(the 64 bits read as a signed number, position after it); the position is -1 if cut short or too long."""
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
    """Write a number ≥ 0 and return the position after it. The caller has made room."""
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
