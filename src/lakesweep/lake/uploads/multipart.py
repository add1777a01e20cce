"""Multipart uploads. Parts wait under `_lakefs/multipart/`, where no collector looks, and are joined at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.formats.entries import Entry
from lakesweep.formats.xid import new_xid
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.errors import (
    ConflictError,
    InvalidRequestError,
    LakeError,
    MissingError,
    RefStoreError,
    TooManyTriesError,
)
from lakesweep.lake.names import path_key
from lakesweep.lake.records import cut_page, page_size
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description
from lakesweep.lake.staging.staged_values import encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.uploads.multipart_parts import Part, Parts
from lakesweep.lake.uploads.pending import FoundUpload, PendingUpload, PendingUploads
from lakesweep.lake.values import (
    NO_METADATA,
    CompletedUpload,
    MultipartUpload,
    Page,
    Repository,
    UploadedPart,
)

MOST_PARTS = 10_000
_MAX_TRIES = 20


@dataclass(eq=False, repr=False)
class Multipart:
    """Multipart uploads under way. Each is a pending upload, alive for `token_life` after its last part."""

    _context: LakeContext
    _branches: Branches
    _staging: Staging
    _slices: Slices
    _pending: PendingUploads
    _parts: Parts

    def create(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> MultipartUpload:
        """Begin: the address is chosen, and counts as live, from now on."""
        path_key(path)
        check_description(content_type=content_type, metadata=metadata)
        self._branches.read(repository, branch_id)
        begun = self._pending.begin(
            repository,
            "multipart",
            new_xid(self._context.now()),
            branch_id,
            path,
            self._slices.new_address(),
            content_type=content_type,
            metadata=metadata,
        )
        return _shown(repository, begun.upload)

    def get(self, repository: Repository, upload_id: str) -> MultipartUpload:
        """The upload; `MissingError` (`upload-not-found`)."""
        return _shown(repository, self._find(repository, upload_id).upload)

    def page(
        self, repository: Repository, *, prefix: str = "", after: str = "", amount: int = 1000
    ) -> Page[MultipartUpload]:
        """Uploads under way, in id order."""
        uploads = (found.upload for found in self._pending.all(repository, after=after or None))
        shown = (
            (upload.id, _shown(repository, upload))
            for upload in uploads
            if upload.kind == "multipart"
            and upload.state != "ending"
            and upload.path.startswith(prefix)
        )
        return cut_page(shown, page_size(amount))

    def upload_part(
        self, repository: Repository, upload_id: str, number: int, chunks: Iterable[bytes]
    ) -> UploadedPart:
        """Store one part, and keep the upload alive."""
        if not 1 <= number <= MOST_PARTS:
            raise InvalidRequestError(f"a part's number is 1 to {MOST_PARTS}, not {number}")
        self._keep_alive(repository, upload_id)
        part = self._parts.store(repository, upload_id, number, chunks)
        try:
            self._find(repository, upload_id)
        except MissingError:
            # The part outlived its upload, and whoever removed the other parts may not have seen it.
            self._parts.remove_all(repository, upload_id)
            raise
        return _shown_part(part)

    def list_parts(self, repository: Repository, upload_id: str) -> list[UploadedPart]:
        """The parts stored so far, by number."""
        self._find(repository, upload_id)
        return [_shown_part(part) for part in self._parts.all(repository, upload_id)]

    def complete(
        self,
        repository: Repository,
        upload_id: str,
        parts: Sequence[UploadedPart],
        *,
        if_absent: bool = False,
        check: Callable[[Iterable[Iterable[bytes]]], Iterator[bytes]] = chain.from_iterable,
    ) -> CompletedUpload:
        """Join the parts, stage the entry, and only then end the upload.

        Args:
            check: what the bytes of all parts pass through on their way; raises where they are not what the client means.
        """
        found = self._find(repository, upload_id)
        key = path_key(found.upload.path)
        self._branches.read(repository, found.upload.branch_id)
        chosen = self._choose(repository, upload_id, parts)
        if if_absent:
            self._staging.assert_absent(repository, found.upload.branch_id, key)
        claimed = self._claim(repository, found, chosen)
        upload = claimed.upload
        try:
            stored = self._context.store(repository).write_stream(
                upload.address, check(self._bytes_of_parts(repository, upload_id, chosen))
            )
            checksum = _joined_md5(chosen)
            entry = Entry(
                address=upload.address,
                last_modified=self._context.now(),
                size=stored.size,
                e_tag=checksum,
                metadata=upload.metadata,
                content_type=upload.content_type,
            )
            row, held = (key, encode_staged(entry)), self._pending.held(repository, claimed)
            self._staging.write(repository, upload.branch_id, row, if_absent=if_absent, held=held)
        except (RefStoreError, TooManyTriesError):
            # The entry may be staged all the same, and committed. Nobody may join other parts at its address.
            raise
        except LakeError:
            self._pending.release(repository, claimed)
            raise
        except StorageError:
            # A disk was full, say. These parts may be joined again, and no others: the bytes may arrive yet. Whoever gives
            # up can abort it at once, which makes room.
            self._pending.change(repository, claimed, replace(upload, claimed_at=None))
            raise
        ending = replace(upload, state="ending")
        ended = self._pending.change(repository, claimed, ending)
        if ended is not None:
            self._remove(repository, ended)
        return CompletedUpload(
            stats_of(repository, upload.path, entry), f"{checksum}-{len(chosen)}"
        )

    def abort(self, repository: Repository, upload_id: str) -> None:
        """End the upload without an object; `ConflictError` (`upload-busy`) while it is being completed."""
        found = self._find(repository, upload_id)
        is_busy = self._pending.is_busy(found.upload)
        ending = None if is_busy else self._pending.give_up(repository, found)
        if ending is None:
            raise ConflictError(f"upload {upload_id} is being completed", kind="upload-busy")
        self._remove(repository, ending)

    def remove_ended(self, repository: Repository) -> None:
        """Finish what was left half-way: ended uploads whose parts were not all removed."""
        for found in self._pending.all(repository):
            if found.upload.kind == "multipart" and found.upload.state == "ending":
                self._remove(repository, found)

    def _find(self, repository: Repository, upload_id: str) -> FoundUpload:
        found = self._pending.find(repository, upload_id)
        if found is None or found.upload.kind != "multipart" or found.upload.state == "ending":
            raise MissingError(
                f"repository {repository.id} has no multipart upload {upload_id!r} under way",
                kind="upload-not-found",
            )
        return found

    def _keep_alive(self, repository: Repository, upload_id: str) -> None:
        life = self._context.settings.token_life
        for _ in range(_MAX_TRIES):
            found = self._find(repository, upload_id)
            now = self._context.now()
            # Each part moving the record would make parallel parts stand in each other's way.
            if found.upload.expires_at - now > life / 2:
                return
            longer = replace(found.upload, expires_at=now + life)
            if self._pending.change(repository, found, longer) is not None:
                return
        raise TooManyTriesError(f"others kept changing upload {upload_id}; the part was not stored")

    def _choose(
        self, repository: Repository, upload_id: str, asked: Sequence[UploadedPart]
    ) -> list[Part]:
        """The stored parts that the client names, each with the etag it was told."""
        stored = {part.number: part for part in self._parts.all(repository, upload_id)}
        chosen: list[Part] = []
        for part in asked:
            known = stored.get(part.part_number)
            if known is None or known.etag != part.etag.strip('"'):
                raise InvalidRequestError(
                    f"part {part.part_number} of upload {upload_id} was not stored as named;"
                    " nothing was completed",
                    kind="invalid-part",
                )
            if chosen and known.number <= chosen[-1].number:
                raise InvalidRequestError(
                    f"the parts of upload {upload_id} are not named in order", kind="part-order"
                )
            chosen.append(known)
        if not chosen:
            raise InvalidRequestError("an upload of no parts can't be completed", kind="no-parts")
        return chosen

    def _claim(
        self, repository: Repository, found: FoundUpload, chosen: Sequence[Part]
    ) -> FoundUpload:
        """The right to write the object. Who asks for the very same parts again may have it again: a client whose first
        answer got lost, perhaps with its server."""
        wanted = hashlib.sha256(",".join(p.object_id for p in chosen).encode()).hexdigest()
        if found.upload.state == "claimed" and found.upload.claimed_for != wanted:
            raise ConflictError(
                f"upload {found.upload.id} is being completed with other parts", kind="upload-busy"
            )
        claimed = self._pending.claim(repository, found, wanted)
        if claimed is None:
            raise ConflictError(
                f"upload {found.upload.id} was changed meanwhile; try again", kind="upload-busy"
            )
        return claimed

    def _bytes_of_parts(
        self, repository: Repository, upload_id: str, chosen: Sequence[Part]
    ) -> Iterator[Iterator[bytes]]:
        return (self._bytes_of_part(repository, upload_id, part) for part in chosen)

    def _bytes_of_part(self, repository: Repository, upload_id: str, part: Part) -> Iterator[bytes]:
        try:
            yield from self._parts.read(repository, upload_id, part)
        except ObjectNotFoundError as gone:
            raise MissingError(
                f"upload {upload_id} was completed or aborted meanwhile",
                kind="upload-not-found",
            ) from gone

    def _remove(self, repository: Repository, ended: FoundUpload) -> None:
        self._parts.remove_all(repository, ended.upload.id)
        self._pending.remove(repository, ended)


def _joined_md5(parts: Sequence[Part]) -> str:
    """S3's etag of a multipart object, without the number of parts: the MD5 of the parts' MD5s."""
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    return hashlib.md5(digests, usedforsecurity=False).hexdigest()


def _shown(repository: Repository, upload: PendingUpload) -> MultipartUpload:
    return MultipartUpload(
        upload_id=upload.id,
        branch_id=upload.branch_id,
        path=upload.path,
        physical_address=full_address(repository, upload.address),
        content_type=upload.content_type,
        metadata=upload.metadata,
    )


def _shown_part(part: Part) -> UploadedPart:
    return UploadedPart(part.number, part.etag, part.size, part.stored_at)
