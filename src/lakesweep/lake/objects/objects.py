"""Objects: upload, read, list, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lakesweep.domain.commits import BranchHead
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.entries import Entry
from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import GoneError, InvalidRequestError, LakeError, MissingError
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.names import path_key, prefix_key
from lakesweep.lake.objects.byte_ranges import resolve_range
from lakesweep.lake.objects.folding import fold
from lakesweep.lake.objects.read_shares import FIRST_PIECE_BYTES, ReadShares
from lakesweep.lake.records import cut_page, page_size
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.staged_values import TOMBSTONE, decode_staged, encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.uploads.streams import UploadStreams
from lakesweep.lake.values import (
    MAX_PAGE,
    NO_METADATA,
    ByteRange,
    ObjectContent,
    ObjectStats,
    Page,
    PathError,
    Repository,
)


@dataclass(eq=False, repr=False)
class Objects:
    """The objects of all repositories."""

    _context: LakeContext
    _branches: Branches
    _entries: Entries
    _staging: Staging
    _slices: Slices
    _streams: UploadStreams
    _pending: PendingUploads
    _addresses: Addresses
    _shares: ReadShares = field(default_factory=ReadShares, init=False)

    def upload(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
        if_absent: bool = False,
    ) -> ObjectStats:
        """Store the bytes, stage the entry, and only then let go of the record that protected them."""
        key = path_key(path)
        check_description(content_type=content_type, metadata=metadata)
        self._branches.read(repository, branch_id)
        if if_absent:
            self._staging.assert_absent(repository, branch_id, key)
        address = self._slices.new_address()
        stored = self._streams.store(repository, branch_id, path, address, chunks)
        entry = Entry(
            address=address,
            last_modified=self._context.now(),
            size=stored.size,
            e_tag=stored.md5,
            metadata=dict(metadata),
            content_type=content_type,
        )
        row = (key, encode_staged(entry))
        held = None if stored.pending is None else self._pending.held(repository, stored.pending)
        self._staging.write(repository, branch_id, row, if_absent=if_absent, held=held)
        if stored.pending is not None:
            self._pending.remove(repository, stored.pending)
        return stats_of(repository, path, entry)

    def stat(self, repository: Repository, ref: str, path: str) -> ObjectStats:
        """The entry, from metadata alone."""
        return stats_of(repository, path, self._entry(repository, ref, path))

    def open(
        self, repository: Repository, ref: str, path: str, byte_range: ByteRange | None = None
    ) -> ObjectContent:
        """The entry and its bytes; the first of them are read here, so that missing ones are noticed here."""
        entry = self._entry(repository, ref, path)
        start, length = resolve_range(byte_range, entry.size)
        store, key = self._addresses.open(repository, entry)
        try:
            first = store.read_range(key, start, min(length, FIRST_PIECE_BYTES))
            if not first:
                store.stat(key)
        except ObjectNotFoundError as missing:
            raise GoneError(
                f"the bytes of {path!r} at {ref!r} in repository {repository.id} are gone from the store;"
                " the entry is still there"
            ) from missing
        return ObjectContent(
            stats=stats_of(repository, path, entry),
            start=start,
            length=length,
            is_partial=byte_range is not None,
            chunks=self._shares.pieces(store, key, first, start, length),
        )

    def list_page(
        self,
        repository: Repository,
        ref: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[ObjectStats]:
        """Entries in path order, those below a delimiter folded into common prefixes."""
        start = prefix_key(prefix)
        snapshot = self._entries.at(repository, ref)
        folded = fold(
            lambda key: snapshot.iterate(start, key),
            prefix=start,
            after=prefix_key(after) if after else None,
            delimiter=prefix_key(delimiter),
        )

        def items() -> Iterator[tuple[str, ObjectStats]]:
            for key, value in folded:
                path = key.decode()
                if value is None:
                    yield path, ObjectStats(path, "common_prefix")
                else:
                    yield path, stats_of(repository, path, decode_staged(value))

        return cut_page(items(), page_size(amount))

    def list_values(
        self, repository: Repository, ref: str, *, prefix: str, after: str, amount: int
    ) -> tuple[list[Row], bool]:
        """Paths and stored values of a page without a delimiter, and whether there is more."""
        snapshot = self._entries.at(repository, ref)
        values = snapshot.iterate(prefix_key(prefix), prefix_key(after) if after else None)
        size = page_size(amount)
        rows = list(islice(values, size + 1))
        return rows[:size], len(rows) > size

    def delete(
        self, repository: Repository, branch_id: str, path: str, *, no_tombstone: bool = False
    ) -> None:
        """Stage a deletion, where there is something to delete."""
        key = path_key(path)

        def is_only_staged(head: BranchHead) -> bool:
            is_sealed = any(self._context.kv.get(token, key) for token in head.sealed_tokens)
            return not is_sealed and self._entries.find_committed(repository, head, key) is None

        if no_tombstone and self._staging.remove(repository, branch_id, key, is_only_staged):
            return
        self._stage_tombstones(repository, branch_id, [key])

    def delete_many(
        self,
        repository: Repository,
        branch_id: str,
        paths: Sequence[str],
        *,
        no_tombstone: bool = False,
    ) -> list[PathError]:
        """Delete each path that can be; the others come back with their errors."""
        if len(paths) > MAX_PAGE:
            raise InvalidRequestError(
                f"{len(paths)} paths are more than {MAX_PAGE}; nothing was deleted",
                kind="too-many-paths",
            )
        errors: list[PathError] = []
        keys: list[bytes] = []
        for path in paths:
            try:
                if no_tombstone:
                    self.delete(repository, branch_id, path, no_tombstone=True)
                else:
                    keys.append(path_key(path))
            except LakeError as wrong:
                errors.append(PathError(path, wrong))
        # The same path twice is deleted once.
        self._stage_tombstones(repository, branch_id, sorted(set(keys)))
        return errors

    def _stage_tombstones(
        self, repository: Repository, branch_id: str, keys: Sequence[bytes]
    ) -> None:
        def tombstones(head: BranchHead) -> list[Row]:
            return [
                (key, TOMBSTONE) for key in keys if self._needs_tombstone(repository, head, key)
            ]

        self._staging.write_tombstones(repository, branch_id, tombstones)

    def _needs_tombstone(self, repository: Repository, head: BranchHead, key: bytes) -> bool:
        staged = self._entries.find_staged(head, key)
        if staged is not None:
            return staged != TOMBSTONE
        return self._entries.find_committed(repository, head, key) is not None

    def _entry(self, repository: Repository, ref: str, path: str) -> Entry:
        value = self._entries.at(repository, ref).find(path_key(path))
        if value is None:
            raise MissingError(
                f"there is no {path!r} at {ref!r} in repository {repository.id}",
                kind="entry-not-found",
            )
        return decode_staged(value)
