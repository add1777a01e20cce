"""What a range holds for one path: where its bytes are, how many, since when."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.errors import FormatError
from lakesweep.formats.proto import (
    Message,
    bytes_field,
    decode_timestamp,
    encode_timestamp,
    int_field,
    map_field,
    text_field,
)

__all__ = ["AddressType", "Entry"]


class AddressType(enum.IntEnum):
    """How to read an entry's address."""

    # Entries of old repositories: full when the address has a scheme, else relative.
    BY_PREFIX_DEPRECATED = 0
    RELATIVE = 1
    FULL = 2


# To look one up in here takes a tenth of the time that the enumeration takes.
_ADDRESS_TYPES = {int(kind): kind for kind in AddressType}


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a commit. `last_modified` is None where the writer gave no time."""

    address: str
    last_modified: datetime | None
    size: int
    e_tag: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    address_type: AddressType = AddressType.RELATIVE
    content_type: str = ""
    # Nanoseconds of the second, where they are finer than `last_modified` can say; kept so that bytes survive a rewrite.
    nanosecond: int | None = None

    def encode(self) -> bytes:
        """The entry as lakeFS's Entry message."""
        time = b""
        if self.last_modified is not None:
            time = bytes_field(2, encode_timestamp(self.last_modified, self.nanosecond))
        return (
            text_field(1, self.address)
            + time
            + int_field(3, self.size)
            + text_field(4, self.e_tag)
            + map_field(5, self.metadata)
            + int_field(6, self.address_type)
            + text_field(7, self.content_type)
        )

    @classmethod
    def decode(cls, data: bytes) -> Entry:
        """The entry in an Entry message. Raises FormatError when the bytes are not one."""
        message = Message(data, "Entry")
        address_type = message.int64(6)
        if address_type not in _ADDRESS_TYPES:
            raise FormatError(
                f"an entry has an address of unknown type {address_type}", kind="bad-protobuf"
            )
        last_modified: datetime | None = None
        nanosecond: int | None = None
        if 2 in message:
            last_modified, nanos = decode_timestamp(message.raw(2))
            nanosecond = nanos if nanos % 1000 else None
        return cls(
            address=message.text(1),
            last_modified=last_modified,
            size=message.int64(3),
            e_tag=message.text(4),
            metadata=message.text_map(5),
            address_type=_ADDRESS_TYPES[address_type],
            content_type=message.text(7),
            nanosecond=nanosecond,
        )
