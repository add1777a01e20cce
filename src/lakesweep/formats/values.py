"""A record's value in a range or metarange: an identity and the data it identifies, each with its length in front."""

from __future__ import annotations

from lakesweep.errors import FormatError
from lakesweep.formats.proto import encode_varint, read_varint

__all__ = ["join_value", "split_value"]

# lakeFS's own limit for either part.
_LONGEST_PART = 640 << 16


def join_value(identity: bytes, data: bytes) -> bytes:
    """The value that holds both."""
    # Lengths are *signed* varints (zigzag), so a positive length is doubled.
    return encode_varint(len(identity) << 1) + identity + encode_varint(len(data) << 1) + data


def split_value(value: bytes) -> tuple[bytes, bytes]:
    """(identity, data). Bytes behind them are passed over, as lakeFS does."""
    identity, pos = _part(value, 0, "identity")
    data, _ = _part(value, pos, "data")
    return identity, data


def _part(value: bytes, pos: int, what: str) -> tuple[bytes, int]:
    zigzag, pos = read_varint(value, pos)
    length = (zigzag >> 1) ^ -(zigzag & 1)
    if not 0 <= length <= min(_LONGEST_PART, len(value) - pos):
        raise FormatError(
            f"a record's {what} claims {length} bytes where {len(value) - pos} are left",
            kind="bad-value",
        )
    return value[pos : pos + length], pos + length
