"""S3 and compatibles: objects through obstore; listing, bulk delete and copy through requests of our own.

obstore's listing raises at odd keys and drops trailing slashes, and its bulk delete tells no outcome per key. Our
pages ask for url-encoded keys, so every key comes out exactly, and are read several times faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from obstore.store import S3Store

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageError
from lakesweep.storage.backend import Backend
from lakesweep.storage.cloud import Clients, CloudBackend, client_options, retry_options
from lakesweep.storage.keys import is_odd_key
from lakesweep.storage.s3.bare_reads import BareGets, BareHeads, BareLists
from lakesweep.storage.s3.client import s3_client
from lakesweep.storage.s3.copy_object import LARGEST_SINGLE_COPY, copy_object, copy_whole
from lakesweep.storage.s3.delete_objects import delete_objects
from lakesweep.storage.s3.pages import Page, checked_successor, page_query, read_page
from lakesweep.storage.s3.signer import S3Signer
from lakesweep.storage.translate import TRANSIENT
from lakesweep.storage.values import NO_TERMS, DeleteOutcomes, DeleteTerms, Folder

if TYPE_CHECKING:
    from obstore.store import S3Config


@lru_cache(maxsize=64)
def _clients(bucket: str, options: StorageOptions) -> Clients:
    client = s3_client(bucket, options)
    # Asked for here, because an error inside obstore's callback would come back as text.
    client.credentials.signing_key()
    address = client.address
    config: S3Config = {
        "region": address.region,
        "virtual_hosted_style_request": not address.is_path_style,
    }
    if address.obstore_endpoint:
        config["endpoint"] = address.obstore_endpoint
    allow_http = options.s3_allow_http
    if allow_http is None:
        allow_http = address.origin.startswith("http://")

    def obstore_client(is_patient: bool) -> S3Store:
        return S3Store(
            bucket,
            config=config,
            client_options=client_options(options, allow_http=allow_http),
            retry_config=retry_options(options, is_patient=is_patient),
            credential_provider=client.credentials.for_obstore,
        )

    return Clients(once=obstore_client(False), patient=obstore_client(True))


class S3Backend(CloudBackend):
    """Objects below one root."""

    reads_odd_keys = True
    delete_batch_size = 1000

    def __init__(self, root: Location, options: StorageOptions) -> None:
        super().__init__(root, options)
        self._client = s3_client(root.container, options)

    @property
    def _clients(self) -> Clients:
        return _clients(self._root.container, self._options)

    @property
    def signer(self) -> S3Signer:
        return S3Signer(self._client, self._base)

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        for page in self._pages(prefix, start_after=start_after):
            yield page.objects

    def folder(self, prefix: str) -> Folder:
        pages = list(self._pages(prefix, delimiter="/"))
        # Some servers begin a page with the folder that ended the one before.
        folders = tuple(dict.fromkeys(name for page in pages for name in page.folders))
        objects = pa.Table.from_batches([page.objects for page in pages]).combine_chunks()
        return Folder(folders, objects.to_batches()[0] if objects.num_rows else pages[0].objects)

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        # Where deleted versions stand first, a page may be empty and have a successor.
        pages = self._pages(prefix, start_after=start_after, limit=1)
        objects = next((page.objects for page in pages if page.objects.num_rows), None)
        return None if objects is None else str(objects.column("key")[0].as_py())

    def get(self, key: str) -> bytes:
        whole = self._base + key
        if not is_odd_key(whole):
            return super().get(key)
        # obstore would read another object, or none.
        return self._client.request(
            "GET", f"reading s3://{self._client.bucket}/{whole}", key=whole
        ).content

    def bare_gets(self) -> BareGets:
        return BareGets(self._client, self._base)

    def bare_heads(self) -> BareHeads:
        return BareHeads(self._client, self._base)

    def bare_lists(self) -> BareLists:
        return BareLists(self._client, self._base)

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        if not isinstance(source, S3Backend):
            return False
        original = f"{source._client.bucket}/{source._base}{source_key}"
        try:
            copy_whole(self._client, original, self._base + target_key)
        except StorageError as error:
            # Refused for its size? To ask for the size of every object first would double the requests.
            if type(error) is not StorageError or error.kind == TRANSIENT:
                raise
            size = source.head(source_key).size
            if size <= LARGEST_SINGLE_COPY:
                raise
            copy_object(self._client, original, size, self._base + target_key)
        return True

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> DeleteOutcomes:
        return delete_objects(self._client, self._base, keys, terms.etags)

    def _pages(
        self,
        prefix: str,
        *,
        start_after: str | None = None,
        delimiter: str = "",
        limit: int = 0,
    ) -> Iterator[Page]:
        query = page_query(self._base + prefix)
        if delimiter:
            query["delimiter"] = delimiter
        if start_after is not None:
            query["start-after"] = self._base + start_after
        if limit:
            query["max-keys"] = str(limit)
        what = f"listing {self._root.uri}/{prefix}"
        while True:
            content = self._client.request("GET", what, query=query).content
            page = read_page(content, self._base)
            yield checked_successor(page, query.get("continuation-token"))
            if page.next_token is None:
                return
            query["continuation-token"] = page.next_token
