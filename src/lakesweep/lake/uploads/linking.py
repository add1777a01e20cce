"""Objects that clients put into the store themselves: issued addresses, links, and objects that lie elsewhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakesweep.errors import ConfigError, ObjectNotFoundError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.errors import InvalidAddressError, InvalidRequestError, LakeError
from lakesweep.lake.names import path_key
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description, clean_checksum
from lakesweep.lake.staging.staged_values import encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.uploads.pending import FoundUpload, PendingUploads
from lakesweep.lake.users.credentials import CredentialStore
from lakesweep.lake.values import NO_METADATA, ObjectStats, Repository, StagingLocation

_SECRET = "physical-address"


@dataclass(eq=False, repr=False)
class Linking:
    """Issues addresses and stages what was uploaded to them."""

    _context: LakeContext
    _branches: Branches
    _staging: Staging
    _slices: Slices
    _pending: PendingUploads
    _addresses: Addresses
    _credentials: CredentialStore

    def issue(self, repository: Repository, branch_id: str, path: str) -> StagingLocation:
        """A new address. Its token, behind a comma, is part of the object's real key."""
        path_key(path)
        self._branches.read(repository, branch_id)
        unsigned = self._slices.new_address()
        token = self._token(repository, branch_id, path, unsigned)
        address = f"{unsigned},{token}"
        begun = self._pending.begin(repository, "link", address, branch_id, path, address)
        return StagingLocation(full_address(repository, address), token, begun.upload.expires_at)

    def link(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        physical_address: str,
        *,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
        if_absent: bool = False,
    ) -> ObjectStats:
        """Claim the issued address, stage its entry, and only then remove the record."""
        key = path_key(path)
        check_description(content_type=content_type, metadata=metadata)
        self._branches.read(repository, branch_id)
        found = self._find_issued(repository, branch_id, path, physical_address)
        self._assert_uploaded(repository, found, size_bytes)
        entry = Entry(
            address=found.upload.address,
            last_modified=mtime or self._context.now(),
            size=size_bytes,
            e_tag=clean_checksum(checksum),
            metadata=dict(metadata),
            content_type=content_type,
        )
        claimed = self._pending.claim(repository, found)
        if claimed is None:
            raise _refused(physical_address, "it was linked already, or has expired")
        try:
            row, held = (key, encode_staged(entry)), self._pending.held(repository, claimed)
            self._staging.write(repository, branch_id, row, if_absent=if_absent, held=held)
        except LakeError as wrong:
            # Nothing was staged, so the token was not used.
            self._pending.release(repository, claimed)
            if wrong.kind == "upload-not-found":
                raise _refused(physical_address, "its time was over meanwhile") from wrong
            raise
        self._pending.remove(repository, claimed)
        return stats_of(repository, path, entry)

    def stage_outside(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        physical_address: str,
        *,
        checksum: str,
        size_bytes: int,
        mtime: datetime | None = None,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> ObjectStats:
        """Stage an object that lies in no namespace; no collection will ever touch it."""
        key = path_key(path)
        check_description(content_type=content_type, metadata=metadata)
        self._addresses.check_outside(repository, physical_address)
        if size_bytes < 0:
            raise InvalidRequestError(f"an object can't have {size_bytes} bytes")
        entry = Entry(
            address=physical_address,
            last_modified=mtime or self._context.now(),
            size=size_bytes,
            e_tag=clean_checksum(checksum),
            metadata=dict(metadata),
            address_type=AddressType.FULL,
            content_type=content_type,
        )
        self._staging.write(repository, branch_id, (key, encode_staged(entry)))
        return stats_of(repository, path, entry)

    def _find_issued(
        self, repository: Repository, branch_id: str, path: str, physical_address: str
    ) -> FoundUpload:
        address = self._relative(repository, physical_address)
        found = self._pending.find(repository, address)
        if found is None or found.upload.kind != "link":
            raise _refused(
                physical_address, "it was not issued here, was linked already, or has expired"
            )
        unsigned, _, token = address.rpartition(",")
        expected = self._token(repository, branch_id, path, unsigned)
        is_right_token = hmac.compare_digest(token.encode(), expected.encode())
        issued_for = (found.upload.branch_id, found.upload.path)
        if not is_right_token or issued_for != (branch_id, path):
            raise _refused(physical_address, "it was issued for another branch or path")
        if found.upload.state != "pending":
            raise _refused(physical_address, "it was linked already")
        if self._context.now() >= found.upload.expires_at:
            raise _refused(physical_address, "it has expired")
        return found

    def _relative(self, repository: Repository, physical_address: str) -> str:
        try:
            location = self._context.locate(physical_address)
        except ConfigError as wrong:
            raise InvalidAddressError(wrong.message) from wrong
        relative = self._context.namespace(repository).relative(location)
        if not relative:
            raise _refused(physical_address, "it lies outside the repository's storage namespace")
        return relative

    def _assert_uploaded(self, repository: Repository, found: FoundUpload, size_bytes: int) -> None:
        address = full_address(repository, found.upload.address)
        try:
            stored = self._context.store(repository).stat(found.upload.address)
        except ObjectNotFoundError as missing:
            raise _refused(address, "nothing was uploaded there") from missing
        if stored.size != size_bytes:
            raise _refused(address, f"{stored.size} bytes lie there, not {size_bytes}")

    def _token(self, repository: Repository, branch_id: str, path: str, unsigned: str) -> str:
        signed = json.dumps(
            {
                "Repository": repository.id,
                "Branch": branch_id,
                "Path": path,
                "PhysicalAddress": unsigned,
            },
            separators=(",", ":"),
        )
        secret = self._credentials.signing_secret(_SECRET)
        digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _refused(address: str, why: str) -> InvalidAddressError:
    return InvalidAddressError(f"{address} can't be linked: {why}. Nothing was staged.")
