"""Azure Blob Storage, through obstore."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, urlsplit

import obstore
from obstore.store import AzureStore

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import (
    LakesweepError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    ThrottledError,
    UnsupportedStoreError,
)
from lakesweep.storage.azure_sign import VERSION, authorised_delete, authorised_get
from lakesweep.storage.cloud import Clients, CloudBackend, client_options, retry_options
from lakesweep.storage.cloud_tokens import KeptToken, azure_token
from lakesweep.storage.own_pages import azure_pages, with_query
from lakesweep.storage.parallel import ordered_parallel
from lakesweep.storage.s3.http import Connections
from lakesweep.storage.s3.pages import Page
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.translate import (
    NO_CONTAINER,
    connection_errors_translated,
    error_from_reply,
    obstore_errors_translated,
)
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteStatus, DeleteTerms

_SORTING_WORKERS = 16
_FATE_UNKNOWN = (
    "its batch broke off, and the time to delete was over before it could be asked for alone"
)
_MISSING_PATH = re.compile(r"Object at location (.*?) not found", re.DOTALL)

if TYPE_CHECKING:
    from obstore.store import AzureConfig


@lru_cache(maxsize=64)
def _clients(container: str, account: str, endpoint: str, options: StorageOptions) -> Clients:
    given = {
        "account_name": account,
        "endpoint": endpoint,
        "account_key": options.azure_account_key,
        "sas_key": options.azure_sas_token,
        "tenant_id": options.azure_tenant_id,
        "client_id": options.azure_client_id,
        "client_secret": options.azure_client_secret,
        "federated_token_file": options.azure_federated_token_file,
    }
    config = cast("AzureConfig", {name: value for name, value in given.items() if value})

    def client(is_patient: bool) -> AzureStore:
        return AzureStore(
            container,
            config=config,
            client_options=client_options(options, allow_http=endpoint.startswith("http://")),
            retry_config=retry_options(options, is_patient=is_patient),
        )

    return Clients(once=client(False), patient=client(True))


@lru_cache(maxsize=64)
def _connections(origin: str, options: StorageOptions) -> Connections:
    return Connections(origin, options, None)


class AzureBackend(CloudBackend):
    """Blobs below one root."""

    # Accounts with a hierarchical namespace order names by folder, so a broken listing can't go on after a key.
    is_key_ordered = False
    delete_batch_size = 256

    @property
    def _clients(self) -> Clients:
        endpoint = self._options.azure_endpoint or self._root.endpoint
        return _clients(self._root.container, self._root.account, endpoint, self._options)

    def _own_pages(
        self, error: UnsupportedStoreError, prefix: str, delimiter: str
    ) -> Iterator[Page]:
        root, options = self._root, self._options
        endpoint = self._endpoint
        token = KeptToken(lambda: azure_token(options))

        def authorise(query: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
            url = with_query(f"{endpoint}/{root.container}", query)
            authorised = authorised_get(url, root.account, options)
            if authorised is not None:
                return authorised
            return url, {"x-ms-version": VERSION, "Authorization": f"Bearer {token()}"}

        return azure_pages(authorise, self._base, prefix, delimiter, options)

    @property
    def _endpoint(self) -> str:
        own = self._options.azure_endpoint or self._root.endpoint
        return (own or f"https://{self._root.account}.blob.core.windows.net").rstrip("/")

    @property
    def signer(self) -> UrlSigner | None:
        # Who has a SAS token and no more can't make another.
        is_token_only = self._options.azure_sas_token and not self._options.azure_account_key
        return None if is_token_only else super().signer

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        if terms.etags and (self._options.azure_account_key or self._options.azure_sas_token):
            return self._delete_versions(keys, terms)
        # obstore carries no condition: with other credentials, etags were only looked at.
        if len(keys) == 1:
            return [self._delete_one(keys[0])]
        missing_path: str | None = None
        try:
            with obstore_errors_translated(f"deleting {len(keys)} blobs in {self._root.uri}"):
                try:
                    obstore.delete(self._clients.once, [self._base + key for key in keys])
                except FileNotFoundError as error:
                    missing_path = _named_in(str(error))
                    raise
        except ObjectNotFoundError as error:
            if error.kind == NO_CONTAINER:
                raise
            return self._sorted_out(keys, missing_path, terms)
        except (StorageDeniedError, ThrottledError):
            raise
        except LakesweepError:
            return self._sorted_out(keys, None, terms)
        return [DeleteOutcome(key, DeleteStatus.GONE) for key in keys]

    def _delete_versions(self, keys: Sequence[str], terms: DeleteTerms) -> list[DeleteOutcome]:
        """Key by key, by requests of our own, which carry the etag as a condition."""

        def delete(key: str) -> DeleteOutcome:
            if terms.is_over:
                return DeleteOutcome(key, DeleteStatus.NOT_TRIED)
            etag = terms.etags.get(key)
            if etag is None:
                return self._delete_one(key)
            return self._outcome(key, lambda: self._delete_version(key, etag))

        return [outcome for _, outcome in ordered_parallel(delete, keys, _SORTING_WORKERS)]

    def _delete_version(self, key: str, etag: str) -> None:
        what = f"deleting {self._uri(key)}"
        place = f"{self._root.container}/{quote(self._base + key, safe='/~')}"
        authorised = authorised_delete(
            f"{self._endpoint}/{place}", self._root.account, self._options, etag
        )
        assert authorised is not None  # delete() has seen the key or the token
        address = urlsplit(authorised[0])
        target = f"{address.path}?{address.query}" if address.query else address.path
        origin = f"{address.scheme}://{address.netloc}"
        with connection_errors_translated(what):
            reply = _connections(origin, self._options).send("DELETE", target, authorised[1], b"")
        if 200 <= reply.status < 300:
            return
        code = reply.headers.get("x-ms-error-code") or ""
        # A condition can't hold on a blob that is gone, and then the look-up says so. A lease, snapshots and a legal hold
        # are refused with the statuses of a condition, too.
        if reply.status in (409, 412) and self.head(key).etag == etag:
            raise StorageError(f"{what} was refused: {reply.status} {code}. It was not deleted.")
        raise error_from_reply(reply.status, code, "", what)

    def _sorted_out(
        self, keys: Sequence[str], missing_path: str | None, terms: DeleteTerms
    ) -> list[DeleteOutcome]:
        """Key by key after a batch that was carried out but reported only its first trouble."""

        def sort_out(key: str) -> DeleteOutcome:
            if self._base + key == missing_path:
                return DeleteOutcome(key, DeleteStatus.ALREADY_ABSENT)
            if terms.is_over:
                return DeleteOutcome(key, DeleteStatus.FAILED, _FATE_UNKNOWN)
            # After a batch that may have deleted it, absent now is all that can be said.
            return self._delete_one(key, absent=DeleteStatus.GONE)

        return [outcome for _, outcome in ordered_parallel(sort_out, keys, _SORTING_WORKERS)]


def _named_in(message: str) -> str | None:
    match = _MISSING_PATH.search(message)
    return match[1] if match else None
