"""The last 53 bytes of a table file: where to start reading it."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.errors import FormatError
from lakesweep.formats.proto import encode_varint, read_varint

__all__ = ["FOOTER_SIZE", "Footer", "Handle"]

FOOTER_SIZE = 53
_HANDLES_SIZE = 40
_CRC32C = b"\x01"
_VERSION_AND_MAGIC = (2).to_bytes(4, "little") + bytes.fromhex("f7cff485b741e288")


@dataclass(frozen=True, slots=True)
class Handle:
    """Where a block lies; `length` leaves out its trailer."""

    offset: int
    length: int

    def encode(self) -> bytes:
        """Two varints."""
        return encode_varint(self.offset) + encode_varint(self.length)

    @classmethod
    def decode(cls, data: bytes, pos: int = 0) -> tuple[Handle, int]:
        """The handle at `pos`, and the position after it."""
        offset, pos = read_varint(data, pos)
        length, pos = read_varint(data, pos)
        return cls(offset, length), pos


@dataclass(frozen=True, slots=True)
class Footer:
    """The two blocks from which all others are found."""

    metaindex: Handle
    index: Handle

    def encode(self) -> bytes:
        """The footer's bytes."""
        handles = self.metaindex.encode() + self.index.encode()
        return _CRC32C + handles.ljust(_HANDLES_SIZE, b"\0") + _VERSION_AND_MAGIC

    @classmethod
    def of(cls, data: bytes) -> Footer:
        """The footer at the end of a file."""
        raw = bytes(data[-FOOTER_SIZE:])
        if len(raw) < FOOTER_SIZE or raw[-8:] != _VERSION_AND_MAGIC[-8:]:
            raise FormatError(
                f"not a table file, or one cut short: its last bytes are {raw[-8:].hex() or 'none'}, not the magic number",
                kind="not-a-table",
            )
        if raw[-12:] != _VERSION_AND_MAGIC or raw[:1] != _CRC32C:
            raise FormatError(
                f"table file of an unknown kind: version {int.from_bytes(raw[-12:-8], 'little')}, "
                f"checksum type {raw[0]}; lakeFS writes version 2 with checksum type 1",
                kind="unknown-table",
            )
        metaindex, pos = Handle.decode(raw[1:-12])
        index, _ = Handle.decode(raw[1:-12], pos)
        footer = cls(metaindex, index)
        # Nothing else vouches for these bytes, so only the one way to write them is accepted.
        if footer.encode() != raw:
            raise FormatError(
                "table file is damaged: its footer has stray bytes", kind="damaged-table"
            )
        return footer
