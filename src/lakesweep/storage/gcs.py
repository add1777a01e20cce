"""Google Cloud Storage, through obstore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import obstore
from obstore.store import GCSStore

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import (
    PreconditionError,
    UnsupportedStoreError,
)
from lakesweep.storage.cloud import Clients, CloudBackend, client_options, retry_options
from lakesweep.storage.cloud_tokens import KeptToken, google_token
from lakesweep.storage.own_pages import google_pages, with_query
from lakesweep.storage.s3.pages import Page
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.translate import obstore_errors_translated
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms

if TYPE_CHECKING:
    from obstore.store import GCSConfig, GCSCredential


def _base_url(options: StorageOptions) -> str:
    endpoint = options.gcs_endpoint
    if not endpoint:
        return "https://storage.googleapis.com"
    return endpoint.rstrip("/") if "://" in endpoint else f"http://{endpoint}"


def _given_token(token: str) -> Callable[[], GCSCredential]:
    return lambda: {"token": token, "expires_at": None}


@lru_cache(maxsize=64)
def _clients(bucket: str, options: StorageOptions) -> Clients:
    config: GCSConfig = {}
    endpoint = options.gcs_endpoint
    if endpoint:
        # An emulator is reached through a key that names its address and asks for no token.
        key = {"gcs_base_url": _base_url(options)}
        config["service_account_key"] = json.dumps(
            {
                **key,
                "disable_oauth": True,
                "client_email": "",
                "private_key": "",
                "private_key_id": "",
            }
        )
    elif options.gcs_service_account_key:
        config["service_account_key"] = options.gcs_service_account_key
    elif options.gcs_service_account_key_file:
        config["application_credentials"] = options.gcs_service_account_key_file

    def client(is_patient: bool) -> GCSStore:
        return GCSStore(
            bucket,
            config=config,
            client_options=client_options(options, allow_http=bool(endpoint)),
            retry_config=retry_options(options, is_patient=is_patient),
            credential_provider=_given_token(options.gcs_token) if options.gcs_token else None,
        )

    return Clients(once=client(False), patient=client(True))


class GcsBackend(CloudBackend):
    """Objects below one root. There is no bulk delete here: keys go one by one, many in flight."""

    @property
    def signer(self) -> UrlSigner | None:
        # An emulator has no keys, and obstore would ask Google to sign.
        return None if self._options.gcs_endpoint else super().signer

    @property
    def _clients(self) -> Clients:
        return _clients(self._root.container, self._options)

    def _own_pages(
        self, error: UnsupportedStoreError, prefix: str, delimiter: str
    ) -> Iterator[Page]:
        url = f"{_base_url(self._options)}/{self._root.container}"
        token = KeptToken(lambda: google_token(self._options))

        def authorise(query: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
            # An emulator asks for no token.
            is_open = bool(self._options.gcs_endpoint)
            headers = {} if is_open else {"Authorization": f"Bearer {token()}"}
            return with_query(url, query), headers

        return google_pages(authorise, self._base, prefix, delimiter, self._options)

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        # obstore carries no condition, so the terms' etags were only looked at.
        return [self._delete_one(key) for key in keys]

    def _version_mode(self, key: str, if_match: str) -> Any:
        # Conditions here are on generations, so the etag is looked up first; the generation closes the race.
        with obstore_errors_translated(f"looking up {self._uri(key)}"):
            try:
                meta = obstore.head(self._clients.patient, self._base + key)
            except FileNotFoundError:
                meta = None
        if meta is None or meta["e_tag"] != if_match:
            raise PreconditionError(
                f"writing {self._uri(key)} failed: the store holds another version; nothing was written."
            )
        return {"e_tag": meta["e_tag"], "version": meta["version"]}
