"""Presigned URLs of a repository's objects, where the operator lets clients go to the store themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakesweep.lake.addresses.outside import Addresses
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.values import ObjectStats, Repository
from lakesweep.storage import SignedUrl

SIGNED_URL_LIFE: Final = timedelta(minutes=15)
"""As in lakeFS. Nobody can take a URL back before: neither the key's revocation nor the object's end."""


class SignedUrls:
    """Signs URLs with the server's own credentials. Each request was checked against its caller's key before."""

    def __init__(self, context: LakeContext, addresses: Addresses) -> None:
        self._context = context
        self._addresses = addresses

    def check(self) -> None:
        """Refuse where the operator did not ask for presigned URLs: `InvalidRequestError` (`no-presign`)."""
        if not self._context.settings.presigned_store:
            raise InvalidRequestError(
                "This lake makes no presigned URLs (its configuration says so). Ask again without presign.",
                kind="no-presign",
            )

    def sign_read(self, repository: Repository, stats: ObjectStats) -> SignedUrl:
        """A URL to read an object from, wherever its bytes lie."""
        self.check()
        store, key = self._addresses.open_uri(repository, stats.physical_address)
        name = stats.path.rpartition("/")[2]
        return store.sign_url("GET", key, SIGNED_URL_LIFE, file_name=name)

    def sign_key(self, repository: Repository, key: str) -> SignedUrl:
        """A URL to read one of the repository's own files from, such as a range."""
        self.check()
        return self._context.store(repository).sign_url("GET", key, SIGNED_URL_LIFE)

    def sign_write(self, repository: Repository, physical_address: str) -> SignedUrl:
        """A URL to put an object to, at an address that was issued in this repository."""
        self.check()
        key = physical_address.removeprefix(full_address(repository, ""))
        return self._context.store(repository).sign_url("PUT", key, SIGNED_URL_LIFE)
