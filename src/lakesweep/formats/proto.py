"""The part of protobuf's wire format that lakeFS's records use, read with every bound checked.

Written fields come in the order of their numbers and defaults are left out, as Go's encoder does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from lakesweep.domain.durations import time_of_second
from lakesweep.errors import FormatError

__all__ = [
    "Message",
    "bytes_field",
    "decode_timestamp",
    "encode_timestamp",
    "encode_varint",
    "int_field",
    "map_field",
    "read_varint",
    "text_field",
]

_VARINT, _FIXED64, _LEN, _FIXED32 = 0, 1, 2, 5
_MASK64 = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode_varint(value: int) -> bytes:
    """`value` as a varint; a negative one as its 64-bit two's complement."""
    value &= _MASK64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The unsigned number at `pos` and the position after it. Raises FormatError when cut short or too long."""
    if pos < len(data) and data[pos] < 0x80:  # as most are
        return data[pos], pos + 1
    value = shift = 0
    while pos < len(data) and shift < 70:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= _MASK64:
            return value, pos
        shift += 7
    raise FormatError(
        f"the varint that ends at byte {pos} is cut short or longer than 64 bits", kind="bad-varint"
    )


def int_field(number: int, value: int) -> bytes:
    """A varint field; nothing for 0."""
    return encode_varint(number << 3 | _VARINT) + encode_varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A length-delimited field, also when empty (repeated fields, messages)."""
    return encode_varint(number << 3 | _LEN) + encode_varint(len(value)) + value


def text_field(number: int, value: str | bytes) -> bytes:
    """A string or bytes field; nothing when empty."""
    raw = value.encode() if isinstance(value, str) else value
    return bytes_field(number, raw) if raw else b""


def map_field(number: int, pairs: Mapping[str, str]) -> bytes:
    """A map<string, string>, sorted by key so that equal maps are equal bytes."""
    # Go writes the key and the value of a map entry even when they are empty.
    return b"".join(
        bytes_field(number, bytes_field(1, key.encode()) + bytes_field(2, value.encode()))
        for key, value in sorted(pairs.items())
    )


def encode_timestamp(at: datetime, nanosecond: int | None = None) -> bytes:
    """google.protobuf.Timestamp; `nanosecond` (of the second) where microseconds are too coarse."""
    seconds, microseconds = divmod((at - _EPOCH) // timedelta(microseconds=1), 1_000_000)
    nanos = microseconds * 1000 if nanosecond is None else nanosecond
    return int_field(1, seconds) + int_field(2, nanos)


def decode_timestamp(data: bytes) -> tuple[datetime, int]:
    """The time to the microsecond, and the nanoseconds of its second."""
    message = Message(data, "Timestamp")
    seconds, nanos = message.int64(1), message.int64(2)
    if not 0 <= nanos < 1_000_000_000:
        raise FormatError(f"Timestamp of {nanos} ns is not a time", kind="bad-protobuf")
    return time_of_second(seconds) + timedelta(microseconds=nanos // 1000), nanos


class Message:
    """One decoded message: its fields by number. Unknown fields are passed over, as protobuf asks."""

    __slots__ = ("_fields", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._what = what
        self._fields: dict[int, list[int | bytes]] = {}
        pos = 0
        while pos < len(data):
            tag, pos = read_varint(data, pos)
            value, pos = self._read_value(data, pos, tag >> 3, tag & 7)
            self._fields.setdefault(tag >> 3, []).append(value)

    def _read_value(self, data: bytes, pos: int, number: int, wire: int) -> tuple[int | bytes, int]:
        if number == 0:
            raise self._wrong("has a field with number 0")
        if wire == _VARINT:
            return read_varint(data, pos)
        if wire == _LEN:
            length, pos = read_varint(data, pos)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise self._wrong(f"has a field {number} of unknown wire type {wire}")
        if length > len(data) - pos:
            raise self._wrong(f"has a field {number} of {length} bytes; {len(data) - pos} are left")
        return data[pos : pos + length], pos + length

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def int64(self, number: int) -> int:
        """A signed 64-bit number; 0 when absent."""
        values = self._fields.get(number)
        if values is None:
            return 0
        value = values[-1]
        if not isinstance(value, int):
            raise self._wrong(f"should have a number in field {number}")
        return value - (1 << 64) if value >> 63 else value

    def int32(self, number: int) -> int:
        """A signed number that must fit 32 bits; 0 when absent."""
        value = self.int64(number)
        if not -(1 << 31) <= value < 1 << 31:
            raise self._wrong(f"has {value} in field {number}, which does not fit 32 bits")
        return value

    def raws(self, number: int) -> list[bytes]:
        """All values of a length-delimited field, in order."""
        values = self._fields.get(number, [])
        raws = [value for value in values if isinstance(value, bytes)]
        if len(raws) != len(values):
            raise self._wrong(f"should have bytes in field {number}")
        return raws

    def raw(self, number: int) -> bytes:
        """A bytes field; empty when absent."""
        raws = self.raws(number)
        return raws[-1] if raws else b""

    def texts(self, number: int) -> tuple[str, ...]:
        """All strings of a repeated field."""
        return tuple(self._text(raw, number) for raw in self.raws(number))

    def text(self, number: int) -> str:
        """A string; empty when absent."""
        return self._text(self.raw(number), number)

    def text_map(self, number: int) -> dict[str, str]:
        """A map<string, string>."""
        entries = self.map_entries(number)
        return {entry.text(1): entry.text(2) for entry in entries}

    def map_entries(self, number: int) -> list[Message]:
        """The entries of a map: key in field 1, value in field 2."""
        return [Message(raw, f"{self._what}, entry of map {number}") for raw in self.raws(number)]

    def _text(self, raw: bytes, number: int) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._wrong(
                f"has bytes that are not UTF-8 in field {number}: {raw[:64]!r}"
            ) from error

    def _wrong(self, complaint: str) -> FormatError:
        return FormatError(f"a damaged {self._what} message {complaint}", kind="bad-protobuf")
