"""Unpacking of snappy blocks in compiled code, every bound checked."""

from __future__ import annotations

from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_ahead, read_varint

__all__ = ["snappy_length", "unpack_snappy"]

# A copy of three bytes makes at most 64, so no stream can unpack to more than this many times its size.
_MOST_EXPANSION = 22


@jitted
def snappy_length(data: Bytes, start: int, length: int) -> int:
    """How many bytes the stream says it unpacks to, or -1 when it has no such number or one it can't keep."""
    value, pos = read_varint(data, start, start + length)
    if pos < 0 or value < 0 or value > length * _MOST_EXPANSION:
        return -1
    return value


@jitted
def unpack_snappy(data: Bytes, start: int, length: int, out: Bytes) -> int:
    """Unpack into `out` and return how many bytes were written, or -1 when the stream is damaged."""
    end = start + length
    size, pos = read_varint(data, start, end)
    if pos < 0 or size < 0 or size > out.size:
        return -1
    at = 0
    while pos < end:
        tag = byte_at(data, pos)
        pos += 1
        if tag & 3 == 0:
            count = (tag >> 2) + 1
            if count > 60:
                extra = count - 60
                if pos + extra > end:
                    return -1
                count = 0
                for i in range(extra):
                    count |= byte_at(data, pos + i) << (8 * i)
                count += 1
                pos += extra
            if count > end - pos or count > size - at:
                return -1
            copy_ahead(data, pos, count, out, at)
            pos += count
            at += count
            continue
        if tag & 3 == 1:
            if pos + 1 > end:
                return -1
            count = ((tag >> 2) & 7) + 4
            back = ((tag >> 5) << 8) | byte_at(data, pos)
            pos += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            if pos + width > end:
                return -1
            count = (tag >> 2) + 1
            back = 0
            for i in range(width):
                back |= byte_at(data, pos + i) << (8 * i)
            pos += width
        if back == 0 or back > at or count > size - at:
            return -1
        if back >= 8:
            copy_ahead(out, at - back, count, out, at)
        else:
            # Byte by byte: the copy reads what it has just written, which is how runs are packed.
            for i in range(count):
                out[at + i] = out[at - back + i]
        at += count
    return at if at == size else -1
