"""Multipart uploads of the object store's own, whose parts clients put there over presigned URLs.

The record of an upload is written before a client has a URL and goes after the entry is staged. In between a collection
counts the address as live: stores date the object to the beginning of its upload, so it may look old when it is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakesweep.errors import LakesweepError, ObjectNotFoundError, StorageError
from lakesweep.formats.entries import Entry
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.errors import (
    ConflictError,
    InvalidAddressError,
    InvalidRequestError,
    MissingError,
    UnsupportedOperationError,
)
from lakesweep.lake.names import path_key
from lakesweep.lake.objects.signed_urls import SIGNED_URL_LIFE
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description, clean_checksum
from lakesweep.lake.staging.staged_values import encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.uploads.pending import FoundUpload, PendingUpload, PendingUploads
from lakesweep.lake.values import NO_METADATA, NamedUpload, ObjectStats, PresignedUpload, Repository
from lakesweep.storage import ObjectInfo, SignedUploads
from lakesweep.storage.translate import TRANSIENT

KIND: Final = "presigned"


@dataclass(eq=False, repr=False)
class PresignedMultipart:
    """Uploads under way, each for `token_life` from its beginning."""

    _context: LakeContext
    _branches: Branches
    _staging: Staging
    _slices: Slices
    _pending: PendingUploads

    def create(
        self, repository: Repository, branch_id: str, path: str, parts: int = 0
    ) -> PresignedUpload:
        """Begin an upload, with URLs for its first `parts` parts."""
        path_key(path)
        self._branches.read(repository, branch_id)
        uploads = self._uploads(repository)
        address = self._slices.new_address()
        upload_id = uploads.create(address)
        # The upload may not be anybody's before the record is there: without one its object would be garbage.
        self._pending.begin(repository, KIND, upload_id, branch_id, path, address)
        urls = [
            uploads.sign_part(address, upload_id, number, SIGNED_URL_LIFE).url
            for number in range(1, parts + 1)
        ]
        return PresignedUpload(upload_id, full_address(repository, address), urls)

    def sign_part(self, repository: Repository, named: NamedUpload, number: int) -> str:
        """The URL of one part of an upload under way."""
        uploads = self._uploads(repository)
        upload = self._find(repository, named).upload
        return uploads.sign_part(upload.address, upload.id, number, SIGNED_URL_LIFE).url

    def complete(
        self,
        repository: Repository,
        named: NamedUpload,
        parts: Sequence[tuple[int, str]],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> ObjectStats:
        """Claim the upload, have the store join the parts, stage the entry, and only then remove the record."""
        key = path_key(named.path)
        check_description(content_type=content_type, metadata=metadata)
        self._branches.read(repository, named.branch_id)
        uploads = self._uploads(repository)
        found = self._find(repository, named)
        if not parts:
            raise InvalidRequestError("an upload of no parts can't be completed", kind="no-parts")
        claimed = self._claim(repository, found, parts)
        try:
            stored = self._join(repository, uploads, claimed.upload, parts)
            entry = Entry(
                address=claimed.upload.address,
                last_modified=self._context.now(),
                size=stored.size,
                e_tag=clean_checksum(stored.etag or ""),
                metadata=dict(metadata),
                content_type=content_type,
            )
            row, held = (key, encode_staged(entry)), self._pending.held(repository, claimed)
            self._staging.write(repository, named.branch_id, row, held=held)
        except LakesweepError:
            self._pending.release(repository, claimed)
            raise
        self._pending.remove(repository, claimed)
        return stats_of(repository, named.path, entry)

    def abort(self, repository: Repository, named: NamedUpload) -> None:
        """End the upload without an object; `ConflictError` (`upload-busy`) while it is being completed."""
        self._uploads(repository)
        found = self._find(repository, named)
        is_busy = self._pending.is_busy(found.upload)
        ended = None if is_busy else self._pending.give_up(repository, found)
        if ended is None:
            raise ConflictError(f"upload {named.id} is being completed", kind="upload-busy")
        self._remove(repository, ended)

    def remove_ended(self, repository: Repository) -> None:
        """Finish what was left half-way: uploads that ended and may still have parts in the store."""
        for found in self._pending.all(repository):
            if found.upload.kind == KIND and found.upload.state == "ending":
                self._remove(repository, found)

    def _remove(self, repository: Repository, ended: FoundUpload) -> None:
        uploads = self._context.store(repository).signed_uploads
        if uploads is not None:
            uploads.abort(ended.upload.address, ended.upload.id)
        self._pending.remove(repository, ended)

    def _uploads(self, repository: Repository) -> SignedUploads:
        uploads = self._context.store(repository).signed_uploads
        if uploads is None or not self._context.settings.presigned_store:
            raise UnsupportedOperationError(
                f"Presigned multipart uploads are not supported for repository {repository.id}; nothing was"
                " done. Upload the object in one request, or over the S3 gateway."
            )
        return uploads

    def _find(self, repository: Repository, named: NamedUpload) -> FoundUpload:
        found = self._pending.find(repository, named.id)
        upload = None if found is None else found.upload
        is_known = upload is not None and upload.kind == KIND and upload.state != "ending"
        if found is None or not is_known or self._context.now() >= found.upload.expires_at:
            raise MissingError(
                f"repository {repository.id} has no presigned upload {named.id[:200]!r} under way;"
                " it ended, or its time is over. Nothing was done.",
                kind="upload-not-found",
            )
        begun_as = (found.upload.branch_id, found.upload.path)
        expected = full_address(repository, found.upload.address)
        if begun_as != (named.branch_id, named.path) or named.physical_address != expected:
            raise InvalidAddressError(
                f"upload {named.id} was begun for another branch, path or address; nothing was done"
            )
        return found

    def _claim(
        self, repository: Repository, found: FoundUpload, parts: Sequence[tuple[int, str]]
    ) -> FoundUpload:
        """The right to complete. Who names the very same parts again may have it again: its first answer got lost."""
        wanted = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        is_others = found.upload.state == "claimed" and found.upload.claimed_for != wanted
        claimed = None if is_others else self._pending.claim(repository, found, wanted)
        if claimed is None:
            raise ConflictError(
                f"upload {found.upload.id} is being completed by another request",
                kind="upload-busy",
            )
        return claimed

    def _join(
        self,
        repository: Repository,
        uploads: SignedUploads,
        upload: PendingUpload,
        parts: Sequence[tuple[int, str]],
    ) -> ObjectInfo:
        store = self._context.store(repository)
        try:
            uploads.complete(upload.address, upload.id, parts)
        except ObjectNotFoundError as gone:
            # The store knows no such upload. If the object is there, an earlier try of ours completed it.
            stored = store.find(upload.address)
            if stored is None:
                raise MissingError(
                    f"the store has no upload {upload.id} any more; nothing was staged",
                    kind="upload-not-found",
                ) from gone
            return stored
        except StorageError as refused:
            if type(refused) is not StorageError or refused.kind == TRANSIENT:
                raise
            raise InvalidRequestError(
                f"the store did not join the parts: {refused.message} Nothing was staged.",
                kind="invalid-part",
            ) from refused
        return store.stat(upload.address)
