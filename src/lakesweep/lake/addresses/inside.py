"""Where an entry's bytes lie in its repository's namespace."""

from __future__ import annotations

from lakesweep.errors import ConfigError
from lakesweep.formats.entries import Entry
from lakesweep.lake.context import LakeContext
from lakesweep.lake.staging.staged_values import TOMBSTONE, decode_staged, is_relative
from lakesweep.lake.values import Repository


def address_inside(context: LakeContext, repository: Repository, entry: Entry) -> str:
    """The entry's address relative to the namespace; empty for one outside of it."""
    return entry.address if is_relative(entry) else inside(context, repository, entry.address)


def inside(context: LakeContext, repository: Repository, address: str) -> str:
    """A full address relative to the namespace; empty for one outside of it."""
    try:
        location = context.locate(address)
    except ConfigError:
        # Not a place any store of ours has, so not in this namespace.
        return ""
    return context.namespace(repository).relative(location) or ""


def staged_address(context: LakeContext, repository: Repository, value: bytes | None) -> str:
    """The address of a staged value relative to the namespace; empty for a tombstone, nothing, and one outside."""
    if value is None or value == TOMBSTONE:
        return ""
    return address_inside(context, repository, decode_staged(value))
