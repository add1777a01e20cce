"""Copies, and other ways for an address to gain another entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lakesweep.domain.commits import BranchHead
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import GoneError, MissingError
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.names import path_key
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.staged_values import TOMBSTONE, decode_staged, encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import ObjectStats, Repository


class _NotStagedError(Exception):
    """The source is not staged (any more), so the copy must copy its bytes."""


@dataclass(eq=False, repr=False)
class Copying:
    """A staged object copied within its branch shares its address with the copy; every other copy gets its own bytes."""

    _context: LakeContext
    _branches: Branches
    _entries: Entries
    _staging: Staging
    _slices: Slices
    _copies: TrackedCopies
    _addresses: Addresses

    def copy(
        self,
        repository: Repository,
        branch_id: str,
        dest_path: str,
        source_path: str,
        *,
        src_ref: str | None = None,
        source_repository: Repository | None = None,
        replace_metadata: Mapping[str, str] | None = None,
        replace_content_type: str | None = None,
        if_absent: bool = False,
        check_source: Callable[[ObjectStats], None] = lambda _: None,
    ) -> ObjectStats:
        """Copy an object, of the same branch unless said otherwise.

        A staged object copied within its branch is a shallow, tracked copy; every other copy copies the bytes.

        Args:
            check_source: looks at the very entry that is copied, and raises where that is not the one to be copied.
        """
        source_repository = source_repository or repository
        source_ref = branch_id if src_ref is None else src_ref
        dest_key, source_key = path_key(dest_path), path_key(source_path)
        self._branches.read(repository, branch_id)
        check_description(content_type=replace_content_type or "", metadata=replace_metadata)
        changes = _Replacements(replace_metadata, replace_content_type)

        def checked(value: bytes) -> Entry:
            entry = decode_staged(value)
            check_source(stats_of(source_repository, source_path, entry))
            return entry

        is_same_branch = (source_repository, source_ref) == (repository, branch_id)
        if is_same_branch:
            try:
                return self._shallow(
                    repository,
                    branch_id,
                    dest_path,
                    dest_key,
                    source_key,
                    lambda value: changes.of(checked(value)),
                    if_absent,
                )
            except _NotStagedError:
                # Committed: the copy gets bytes of its own.
                pass
        if if_absent:
            self._staging.assert_absent(repository, branch_id, dest_key)
        value = self._entries.at(source_repository, source_ref).find(source_key)
        if value is None:
            raise MissingError(
                f"there is no {source_path!r} at {source_ref!r} in repository"
                f" {source_repository.id}; nothing was copied",
                kind="entry-not-found",
            )
        copied = self._copy_bytes(repository, source_repository, checked(value))
        entry = changes.of(copied)
        row = (dest_key, encode_staged(entry))
        self._staging.write(repository, branch_id, row, if_absent=if_absent)
        return stats_of(repository, dest_path, entry)

    def set_user_metadata(
        self, repository: Repository, branch_id: str, path: str, metadata: Mapping[str, str]
    ) -> ObjectStats:
        """Stage the entry again with other metadata. Its address is tracked, as a copy's is, for the same reason."""
        key = path_key(path)
        check_description(metadata=metadata)

        def changed(value: bytes) -> bytes:
            self._copies.track(repository, [value])
            return encode_staged(replace(decode_staged(value), metadata=dict(metadata)))

        staged = self._staging.change(repository, branch_id, key, changed)
        if staged is None:
            raise MissingError(
                f"there is no {path!r} on branch {branch_id!r} of {repository.id}",
                kind="entry-not-found",
            )
        return stats_of(repository, path, decode_staged(staged))

    def _shallow(
        self,
        repository: Repository,
        branch_id: str,
        dest_path: str,
        dest_key: bytes,
        source_key: bytes,
        copy_of: Callable[[bytes], Entry],
        if_absent: bool,
    ) -> ObjectStats:
        staged: list[Entry] = []

        def copied(head: BranchHead) -> list[Row]:
            value = self._entries.find_staged(head, source_key)
            while value is not None and value != TOMBSTONE:
                # Track, then look again: see copies.py for the rename that would slip past a collection otherwise.
                self._copies.track(repository, [value])
                again = self._entries.find_staged(head, source_key)
                if again == value:
                    entry = replace(copy_of(value), last_modified=self._context.now())
                    staged[:] = [entry]
                    return [(dest_key, encode_staged(entry))]
                value = again
            raise _NotStagedError

        self._staging.write_references(repository, branch_id, copied, if_absent=if_absent)
        return stats_of(repository, dest_path, staged[0])

    def _copy_bytes(
        self, repository: Repository, source_repository: Repository, entry: Entry
    ) -> Entry:
        source, source_key = self._addresses.open(source_repository, entry)
        target = self._context.store(repository)
        address = self._slices.new_address()
        try:
            if source.root == target.root:
                target.copy(source_key, address)
            else:
                target.copy_from(source, source_key, address)
        except ObjectNotFoundError as missing:
            raise GoneError(
                f"the bytes of {entry.address} are gone from the store; nothing was copied"
            ) from missing
        return replace(
            entry,
            address=address,
            address_type=AddressType.RELATIVE,
            last_modified=self._context.now(),
            nanosecond=None,
        )


class _Replacements:
    """What a copy does not take over from its source."""

    def __init__(self, metadata: Mapping[str, str] | None, content_type: str | None) -> None:
        self._metadata = metadata
        self._content_type = content_type

    def of(self, entry: Entry) -> Entry:
        if self._metadata is not None:
            entry = replace(entry, metadata=dict(self._metadata))
        if self._content_type is not None:
            entry = replace(entry, content_type=self._content_type)
        return entry
