"""The lake's operations on objects: write, read, list, delete, copy, link, import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lakesweep.lake.lake_base import LakeBase
from lakesweep.lake.values import (
    ByteRange,
    CompletedUpload,
    ImportSource,
    ImportStatus,
    MultipartUpload,
    ObjectContent,
    ObjectStats,
    Page,
    PathError,
    StagingLocation,
    UploadedPart,
)


class ObjectOperations(LakeBase):
    """The data. `ref` reads from a branch (with what is staged on it), a tag or a commit; writes go to a branch."""

    # -- write

    def upload_object(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectStats:
        """Store the bytes at a new address and stage the entry; the checksum is their hex MD5.

        Raises:
            PreconditionFailedError: `if_absent` and the path exists; nothing is staged.
        """
        return self._parts.objects.upload(
            self._writable(repository_id, force=force),
            branch_id,
            path,
            chunks,
            content_type=content_type,
            metadata=metadata or {},
            if_absent=if_absent,
        )

    def stage_object(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        physical_address: str,
        *,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> ObjectStats:
        """Stage an object that lies elsewhere. `InvalidAddressError` for any address inside the namespace."""
        return self._parts.linking.stage_outside(
            self._writable(repository_id, force=force),
            branch_id,
            path,
            physical_address,
            checksum=checksum,
            size_bytes=size_bytes,
            mtime=mtime,
            content_type=content_type,
            metadata=metadata or {},
        )

    def get_physical_address(
        self, repository_id: str, branch_id: str, path: str
    ) -> StagingLocation:
        """Issue an address to upload to, with its single-use token; tracked until linked or expired."""
        return self._parts.linking.issue(self._writable(repository_id), branch_id, path)

    def link_physical_address(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        physical_address: str,
        *,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectStats:
        """Stage what was uploaded to an issued address; of two that race with one token, one wins.

        Raises:
            InvalidAddressError: not issued for this repository, branch and path; used; expired; never uploaded.
            PreconditionFailedError: `if_absent` and the path exists; the token stays good.
        """
        return self._parts.linking.link(
            self._writable(repository_id, force=force),
            branch_id,
            path,
            physical_address,
            checksum=checksum,
            size_bytes=size_bytes,
            mtime=mtime,
            content_type=content_type,
            metadata=metadata or {},
            if_absent=if_absent,
        )

    def create_multipart(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> MultipartUpload:
        """Begin a multipart upload; its address is tracked until it is completed, aborted or abandoned."""
        return self._parts.multipart.create(
            self._writable(repository_id, force=force),
            branch_id,
            path,
            content_type=content_type,
            metadata=metadata or {},
        )

    def get_multipart(self, repository_id: str, upload_id: str) -> MultipartUpload:
        """A multipart upload under way; `MissingError` (`upload-not-found`)."""
        return self._parts.multipart.get(self._repository(repository_id), upload_id)

    def list_multiparts(
        self, repository_id: str, *, prefix: str = "", after: str = "", amount: int = 1000
    ) -> Page[MultipartUpload]:
        """Multipart uploads under way whose path has the prefix, in upload id order."""
        return self._parts.multipart.page(
            self._repository(repository_id), prefix=prefix, after=after, amount=amount
        )

    def upload_part(
        self, repository_id: str, upload_id: str, part_number: int, chunks: Iterable[bytes]
    ) -> UploadedPart:
        """Store one part (1..10000); a part sent again replaces the earlier one."""
        return self._parts.multipart.upload_part(
            self._repository(repository_id), upload_id, part_number, chunks
        )

    def list_parts(self, repository_id: str, upload_id: str) -> Sequence[UploadedPart]:
        """The parts stored so far, by number."""
        return self._parts.multipart.list_parts(self._repository(repository_id), upload_id)

    def complete_multipart(
        self,
        repository_id: str,
        upload_id: str,
        parts: Sequence[UploadedPart],
        *,
        if_absent: bool = False,
    ) -> CompletedUpload:
        """Join the parts into one object and stage it. Safe to repeat when the answer got lost half-way."""
        return self._parts.multipart.complete(
            self._repository(repository_id), upload_id, parts, if_absent=if_absent
        )

    def abort_multipart(self, repository_id: str, upload_id: str) -> None:
        """Give up a multipart upload and remove its parts."""
        self._parts.multipart.abort(self._repository(repository_id), upload_id)

    def copy_object(
        self,
        repository_id: str,
        branch_id: str,
        dest_path: str,
        src_path: str,
        *,
        src_ref: str | None = None,
        src_repository_id: str | None = None,
        replace_metadata: Mapping[str, str] | None = None,
        replace_content_type: str | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectStats:
        """Copy an object (`src_ref` defaults to the branch itself).

        A staged object copied within its branch is a shallow, tracked copy; every other copy copies the bytes.
        """
        repository = self._writable(repository_id, force=force)
        source_repository = repository
        if src_repository_id is not None and src_repository_id != repository_id:
            source_repository = self._repository(src_repository_id)
        return self._parts.copying.copy(
            repository,
            branch_id,
            dest_path,
            source_repository,
            branch_id if src_ref is None else src_ref,
            src_path,
            replace_metadata=replace_metadata,
            replace_content_type=replace_content_type,
            if_absent=if_absent,
        )

    def set_user_metadata(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        metadata: Mapping[str, str],
        *,
        force: bool = False,
    ) -> ObjectStats:
        """Replace an entry's user metadata; its bytes and address stay."""
        return self._parts.copying.set_user_metadata(
            self._writable(repository_id, force=force), branch_id, path, metadata
        )

    def delete_object(
        self,
        repository_id: str,
        branch_id: str,
        path: str,
        *,
        no_tombstone: bool = False,
        force: bool = False,
    ) -> None:
        """Stage the deletion of a path; no error when it does not exist."""
        self._parts.objects.delete(
            self._writable(repository_id, force=force), branch_id, path, no_tombstone=no_tombstone
        )

    def delete_objects(
        self,
        repository_id: str,
        branch_id: str,
        paths: Sequence[str],
        *,
        no_tombstone: bool = False,
        force: bool = False,
    ) -> Sequence[PathError]:
        """Delete up to 1000 paths and give those that failed; absent paths are no failures."""
        return self._parts.objects.delete_many(
            self._writable(repository_id, force=force), branch_id, paths, no_tombstone=no_tombstone
        )

    # -- read

    def get_entry(self, repository_id: str, ref: str, path: str) -> ObjectStats:
        """The entry, from metadata alone; `MissingError` (`entry-not-found`)."""
        return self._parts.objects.stat(self._repository(repository_id), ref, path)

    def open_object(
        self, repository_id: str, ref: str, path: str, byte_range: ByteRange | None = None
    ) -> ObjectContent:
        """The entry and its bytes.

        Raises:
            GoneError: the bytes were hard-deleted (raised here, before any chunk is read).
            RangeNotSatisfiableError: the object has no such bytes.
        """
        return self._parts.objects.open(self._repository(repository_id), ref, path, byte_range)

    def list_entries(
        self,
        repository_id: str,
        ref: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[ObjectStats]:
        """Entries in path order, those below a delimiter folded into common prefixes."""
        return self._parts.objects.list_page(
            self._repository(repository_id),
            ref,
            prefix=prefix,
            after=after,
            amount=amount,
            delimiter=delimiter,
        )

    # -- import

    def import_start(
        self,
        repository_id: str,
        branch_id: str,
        sources: Sequence[ImportSource],
        *,
        committer: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> str:
        """Start importing outside objects as one commit, and give the import's id.

        Raises:
            InvalidAddressError: a source lies inside the namespace or around it.
        """
        return self._parts.importing.start(
            self._writable(repository_id, force=force),
            branch_id,
            sources,
            committer=committer,
            message=message,
            metadata=metadata or {},
        )

    def import_status(self, repository_id: str, branch_id: str, import_id: str) -> ImportStatus:
        """How far the import has come; `MissingError` (`task-not-found`)."""
        return self._parts.importing.status(self._repository(repository_id), branch_id, import_id)

    def import_cancel(self, repository_id: str, branch_id: str, import_id: str) -> None:
        """Stop an import before it commits; `ConflictError` (`import-completed`) when it has."""
        self._parts.importing.cancel(self._repository(repository_id), branch_id, import_id)
