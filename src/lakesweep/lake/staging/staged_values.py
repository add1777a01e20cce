"""Values of staged entries: the very bytes of a range's record, so that a commit need not touch them."""

from __future__ import annotations

from datetime import UTC, datetime

from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.values import join_value, split_value
from lakesweep.lake.context import full_address
from lakesweep.lake.values import ObjectStats, Repository

TOMBSTONE = b""
"""A staged value that says: this path is deleted."""

# The length of a SHA-256 identity as a signed varint, and the identity behind it.
_IDENTITY_END = 33
_IDENTITY_LENGTH = b"\x40"


def encode_staged(entry: Entry) -> bytes:
    """The staged value of an entry."""
    identity = entry_identity(entry.size, entry.e_tag, entry.metadata, entry.content_type)
    return join_value(identity, entry.encode())


def decode_staged(value: bytes) -> Entry:
    """The entry in a staged value or a range's record."""
    return Entry.decode(split_value(value)[1])


def has_same_identity(left: bytes, right: bytes) -> bool:
    """Whether two values stand for the same content; where the bytes lie and since when does not count."""
    if left[:1] == _IDENTITY_LENGTH == right[:1]:
        return left[:_IDENTITY_END] == right[:_IDENTITY_END]
    if not left or not right:
        return left == right
    return split_value(left)[0] == split_value(right)[0]


def stats_of(repository: Repository, path: str, entry: Entry) -> ObjectStats:
    """The entry as clients see it."""
    return ObjectStats(
        path=path,
        physical_address=address_of(repository, entry),
        checksum=entry.e_tag,
        size_bytes=entry.size,
        mtime=entry.last_modified or datetime.fromtimestamp(0, UTC),
        metadata=entry.metadata,
        content_type=entry.content_type,
    )


def is_relative(entry: Entry) -> bool:
    """Whether the entry's bytes lie in the repository's namespace."""
    if entry.address_type is AddressType.BY_PREFIX_DEPRECATED:
        return "://" not in entry.address
    return entry.address_type is AddressType.RELATIVE


def address_of(repository: Repository, entry: Entry) -> str:
    """The URI of the entry's bytes."""
    return full_address(repository, entry.address) if is_relative(entry) else entry.address
