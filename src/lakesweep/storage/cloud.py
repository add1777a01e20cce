"""What Azure, Google Cloud Storage and S3 have in common: one obstore client seen from a root."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import AzureStore, GCSStore, S3Store

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import (
    LakesweepError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionError,
    StorageDeniedError,
    StorageError,
    UnsupportedStoreError,
)
from lakesweep.storage.backend import Backend
from lakesweep.storage.bare_requests import BareListRequests, StoreKeyRequests
from lakesweep.storage.keys import is_odd_key, odd_mask
from lakesweep.storage.parallel import merged_streams, ordered_parallel
from lakesweep.storage.s3.pages import Page
from lakesweep.storage.signing import SignedMethod, SignedUrl, UrlSigner
from lakesweep.storage.translate import (
    NO_CONTAINER,
    NO_PRESIGN,
    ODD_KEY,
    obstore_errors_translated,
    scrubbed,
)
from lakesweep.storage.values import (
    LISTING_SCHEMA,
    NO_TERMS,
    DeleteOutcome,
    DeleteStatus,
    DeleteTerms,
    Folder,
    ObjectInfo,
    empty_listing,
    refused_delete,
)

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_PAGE_ROWS = 1000
_PART_BYTES = 8 << 20
_CHUNK_BYTES = 8 << 20
_CHUNKS_AHEAD = 2
_VERIFYING_WORKERS = 16
_PAST_THE_END = ("status code: 416", "Wanted range starting at")

Client: TypeAlias = S3Store | AzureStore | GCSStore


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients of one container: `ObjectStore` repeats single requests, obstore those inside a longer operation."""

    once: Client
    patient: Client


def client_options(options: StorageOptions, *, allow_http: bool) -> ClientConfig:
    """Timeouts and transport, the same for all stores."""
    return {
        "allow_http": allow_http,
        "connect_timeout": timedelta(seconds=options.connect_timeout_seconds),
        "timeout": timedelta(seconds=options.request_timeout_seconds),
    }


def retry_options(options: StorageOptions, *, is_patient: bool) -> RetryConfig:
    """No retries where `ObjectStore` makes them, so that it sees every "slow down"."""
    return {
        "max_retries": options.transient_retries if is_patient else 0,
        "retry_timeout": timedelta(seconds=options.throttle_patience_seconds),
    }


class CloudBackend(ABC):
    """An obstore client below one root; subclasses add what differs."""

    is_key_ordered = True
    reads_odd_keys = False
    delete_batch_size = 1

    def __init__(self, root: Location, options: StorageOptions) -> None:
        self._root = root
        self._options = options
        self._base = root.key + "/" if root.key else ""

    @property
    def signer(self) -> UrlSigner | None:
        return _ObstoreSigner(self)

    @property
    @abstractmethod
    def _clients(self) -> Clients:
        """The clients that requests go through."""

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        given = [np.empty(0, np.int64)]
        try:
            for batch in self._scanned(prefix, start_after):
                given.append(_hashes(batch))
                yield batch
        except UnsupportedStoreError as error:
            if error.kind != ODD_KEY:
                raise
            # What obstore gave before it came upon the key is not given twice. Not all stores have an order.
            yield from self._rest_of_scan(error, prefix, start_after, np.concatenate(given))

    def _rest_of_scan(
        self,
        error: UnsupportedStoreError,
        prefix: str,
        start_after: str | None,
        given: npt.NDArray[np.int64],
    ) -> Iterator[pa.RecordBatch]:
        for page in self._own_pages(error, prefix, ""):
            batch = _with_quotes(page.objects)
            is_new = pa.array(~np.isin(_hashes(batch), given))
            if start_after is not None:
                is_new = pc.and_(is_new, pc.greater(batch.column("key"), start_after))
            rest = batch.filter(is_new)
            if rest.num_rows:
                yield rest

    def _own_pages(
        self, error: UnsupportedStoreError, prefix: str, delimiter: str
    ) -> Iterator[Page]:
        """All pages below `prefix`, without obstore; raises `error` where our credentials don't allow that."""
        raise error

    def _scanned(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        # obstore's prefixes are folders; the rest of ours is compared here.
        full_prefix = self._base + prefix
        folder = full_prefix[: full_prefix.rfind("/") + 1].rstrip("/")
        after = None if start_after is None else self._base + start_after
        # An odd offset is passed over by comparing here alone, as are all by some servers.
        offset = None if after is None or is_odd_key(after) else after
        last_key: str | None = None
        with obstore_errors_translated(f"listing {self._root.uri}/{prefix}"):
            stream = obstore.list(
                self._clients.patient,
                folder or None,
                offset=offset,
                chunk_size=_PAGE_ROWS,
                return_arrow=True,
            )
            for chunk in stream:
                batch = self._listed(pa.record_batch(chunk), full_prefix, after)
                if batch.num_rows:
                    yield self._with_lost_slashes(batch, last_key)
                    last_key = batch.column("key")[-1].as_py()

    def folder(self, prefix: str) -> Folder:
        try:
            return self._folder(prefix)
        except UnsupportedStoreError as error:
            if error.kind != ODD_KEY:
                raise
            pages = list(self._own_pages(error, prefix, "/"))
        folders = sorted(name for page in pages for name in page.folders)
        batches = [_with_quotes(page.objects) for page in pages]
        table = pa.Table.from_batches(batches).combine_chunks()
        objects = table.to_batches()[0] if table.num_rows else empty_listing()
        return Folder(tuple(folders), objects)

    def _folder(self, prefix: str) -> Folder:
        full_prefix = self._base + prefix
        with obstore_errors_translated(f"listing {self._root.uri}/{prefix}"):
            result = obstore.list_with_delimiter(
                self._clients.patient, full_prefix.rstrip("/") or None, return_arrow=True
            )
            folders = sorted(
                f"{name.rstrip('/')}/"[len(self._base) :] for name in result["common_prefixes"]
            )
            table = pa.table(result["objects"]).combine_chunks()
            raw = table.to_batches()[0] if table.num_rows else None
        objects = empty_listing() if raw is None else self._listed(raw, full_prefix, None)
        return Folder(tuple(folders), self._with_lost_slashes(objects, None))

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        batch = next(self.scan(prefix, start_after), None)
        return None if batch is None else str(batch.column("key")[0].as_py())

    def bare_gets(self) -> StoreKeyRequests[bytes] | None:
        return None

    def bare_heads(self) -> StoreKeyRequests[ObjectInfo] | None:
        return None

    def bare_lists(self) -> BareListRequests | None:
        return None

    def get(self, key: str) -> bytes:
        with obstore_errors_translated(f"reading {self._uri(key)}"):
            return bytes(obstore.get(self._clients.once, self._base + key).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with obstore_errors_translated(f"reading {self._uri(key)}"):
            try:
                return bytes(
                    obstore.get_range(
                        self._clients.once, self._base + key, start=start, length=length
                    )
                )
            except obstore.exceptions.GenericError as error:
                if any(words in str(error) for words in _PAST_THE_END):
                    return b""  # The range begins where the object has ended.
                raise

    def stream(self, key: str) -> Iterator[bytes]:
        with obstore_errors_translated(f"reading {self._uri(key)}"):
            result = obstore.get(self._clients.patient, self._base + key)
            for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
                yield bytes(chunk)

    def head(self, key: str) -> ObjectInfo:
        return self._looked_up(self._clients.once, key)

    def _looked_up(self, client: Client, key: str) -> ObjectInfo:
        with obstore_errors_translated(f"looking up {self._uri(key)}"):
            meta = obstore.head(client, self._base + key)
        return ObjectInfo(key, meta["size"], meta["last_modified"], meta["e_tag"])

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        mode: Any = "overwrite"
        if create:
            mode = "create"
        elif if_match is not None:
            mode = self._version_mode(key, if_match)
        with obstore_errors_translated(f"writing {self._uri(key)}"):
            result = obstore.put(
                self._clients.once, self._base + key, data, mode=mode, use_multipart=False
            )
        return self._written(key, len(data), result["e_tag"])

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        # obstore asks for chunks inside its own runtime, where another of its calls (a source that is a cloud store, too)
        # would panic: the source is read by a thread of its own.
        fed = merged_streams([lambda: iter(chunks)], workers=1, depth=_CHUNKS_AHEAD)
        counted = _Counted(fed)
        with obstore_errors_translated(f"writing {self._uri(key)}"), closing(fed):
            result = obstore.put(
                self._clients.patient,
                self._base + key,
                counted,
                use_multipart=True,
                chunk_size=_PART_BYTES,
            )
        return self._written(key, counted.total, result["e_tag"])

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        if not isinstance(source, CloudBackend) or source._container != self._container:
            return False
        with obstore_errors_translated(f"copying {source._uri(source_key)}"):
            obstore.copy(self._clients.once, source._base + source_key, self._base + target_key)
        return True

    @abstractmethod
    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        """Delete keys, and say what became of each."""

    def _delete_one(
        self, key: str, *, absent: DeleteStatus = DeleteStatus.ALREADY_ABSENT
    ) -> DeleteOutcome:
        def delete() -> None:
            what = f"deleting {self._uri(key)}"
            try:
                with obstore_errors_translated(what):
                    obstore.delete(self._clients.once, self._base + key)
            except (ObjectExistsError, PreconditionError) as error:
                # No condition was sent. Azure refuses so what has a lease, snapshots or a legal hold.
                said = scrubbed(str(error.__cause__))
                raise StorageError(f"{what} was refused: {said}. It was not deleted.") from error

        return self._outcome(key, delete, absent)

    def _outcome(
        self,
        key: str,
        delete: Callable[[], None],
        absent: DeleteStatus = DeleteStatus.ALREADY_ABSENT,
    ) -> DeleteOutcome:
        """What became of a key, by the error of its delete or by none."""
        try:
            delete()
        except ObjectNotFoundError as error:
            if error.kind == NO_CONTAINER:
                raise
            return DeleteOutcome(key, absent)
        except LakesweepError as error:
            return refused_delete(key, error)
        return DeleteOutcome(key, DeleteStatus.GONE)

    @property
    def _container(self) -> tuple[str, ...]:
        return (self._root.kind, self._root.container, self._root.account, self._root.endpoint)

    def _uri(self, key: str) -> str:
        return self._root.child(key).uri

    def _version_mode(self, key: str, if_match: str) -> Any:
        return {"e_tag": if_match}

    def _written(self, key: str, size: int, etag: str | None) -> ObjectInfo:
        """The new object with its time, which only a look-up gives; no time if that shows another version."""
        try:
            seen = self.head(key)
        except (ObjectNotFoundError, StorageDeniedError, StorageError):
            return ObjectInfo(key, size, None, etag)
        is_ours = seen.etag == etag and seen.size == size
        return ObjectInfo(key, size, seen.last_modified if is_ours else None, etag)

    def _with_lost_slashes(self, batch: pa.RecordBatch, last_key: str | None) -> pa.RecordBatch:
        """`batch` with the trailing slashes that obstore dropped.

        A key out of order, or of no bytes (as folder markers are), is looked up: if no such object is there, what was
        listed is the key with the slash. Any other key that lost one stays as it is; deleting it finds nothing.
        """
        keys = batch.column("key").to_pylist()
        sizes = batch.column("size").to_pylist()
        before = [last_key, *keys[:-1]]
        doubtful = [
            row
            for row, (key, size) in enumerate(zip(keys, sizes, strict=True))
            if size == 0 or (before[row] is not None and key <= before[row])
        ]
        etags = batch.column("etag")

        def is_as_listed(row: int) -> bool:
            try:
                found = self._looked_up(self._clients.patient, keys[row])
            except ObjectNotFoundError:
                return False
            return (found.size, found.etag) == (sizes[row], etags[row].as_py())

        checked = ordered_parallel(is_as_listed, doubtful, _VERIFYING_WORKERS) if doubtful else ()
        lost = [row for row, is_true in checked if not is_true]
        if not lost:
            return batch
        for row in lost:
            keys[row] += "/"
        column = pa.array(keys, pa.string())
        batch = batch.set_column(0, LISTING_SCHEMA.field("key"), column)
        return batch.set_column(4, LISTING_SCHEMA.field("is_odd"), odd_mask(column))

    def _listed(self, raw: pa.RecordBatch, full_prefix: str, after: str | None) -> pa.RecordBatch:
        keys = raw.column("path").cast(pa.string())
        is_inside = pc.starts_with(keys, full_prefix)
        if after is not None:
            is_inside = pc.and_(is_inside, pc.greater(keys, after))
        relative = pc.utf8_slice_codeunits(keys, len(self._base))
        batch = pa.RecordBatch.from_arrays(
            [
                relative,
                raw.column("size").cast(pa.int64()),
                raw.column("last_modified").cast(pa.timestamp("us", "UTC")),
                _quoted(raw.column("e_tag").cast(pa.string())),
                odd_mask(relative),
            ],
            schema=LISTING_SCHEMA,
        )
        return batch.filter(is_inside)


def _quoted(etags: pa.StringArray) -> pa.StringArray:
    """Etags as a look-up gives them; some listings leave the quotes out."""
    quoted = pc.binary_join_element_wise('"', etags, '"', "")
    return pc.if_else(pc.starts_with(etags, '"'), etags, quoted)


def _with_quotes(batch: pa.RecordBatch) -> pa.RecordBatch:
    etags = _quoted(batch.column("etag"))
    return batch.set_column(3, LISTING_SCHEMA.field("etag"), etags)


def _hashes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The keys' hashes. Two keys with one hash would at worst leave an object out, and what isn't listed is kept."""
    return np.fromiter(map(hash, batch.column("key").to_pylist()), np.int64, batch.num_rows)


class _ObstoreSigner:
    """URLs signed by obstore, which adds no parameters of ours to them."""

    uploads = None

    def __init__(self, backend: CloudBackend) -> None:
        self._backend = backend

    def sign(
        self, method: SignedMethod, key: str, life: timedelta, *, file_name: str = ""
    ) -> SignedUrl:
        backend, now = self._backend, datetime.now(UTC)
        whole = backend._base + key
        if backend._root.kind == "azure" and quote(whole, safe="/~,") != whole:
            # obstore signs the name as it is encoded, Azure as it is.
            raise UnsupportedStoreError(
                f"{backend._uri(key)} has a name of which no URL can be signed; none was made.",
                kind=NO_PRESIGN,
            )
        with obstore_errors_translated(f"signing a URL of {backend._uri(key)}"):
            url = obstore.sign(backend._clients.once, method, whole, life)
        return SignedUrl(url, now + life)


class _Counted:
    """Passes chunks on and counts their bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.total = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self.total += len(chunk)
        return chunk
