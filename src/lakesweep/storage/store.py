"""The one client of all object stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    ThrottledError,
    UnsupportedStoreError,
)
from lakesweep.storage.backend import Backend
from lakesweep.storage.bare_requests import StoreKeyRequests, folder_of, ordered_requests
from lakesweep.storage.bulk_delete import BulkDelete
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.keys import is_odd_key
from lakesweep.storage.local import LocalBackend
from lakesweep.storage.parallel import merged_streams, ordered_parallel
from lakesweep.storage.retry import Patience
from lakesweep.storage.scanning import Scanner
from lakesweep.storage.signing import SignedMethod, SignedUploads, SignedUrl
from lakesweep.storage.translate import NO_CONTAINER, NO_PRESIGN, ODD_KEY
from lakesweep.storage.values import DeleteOutcomes, Folder, KeyRange, ObjectInfo, forever
from lakesweep.storage.waiting import about_to_wait, may_wait

__all__ = ["ObjectStore"]

Result = TypeVar("Result")

_LISTING_WORKERS = 16
_PAGES_AHEAD = 4
_WORTH_MULTIPLEXING = 4  # requests


@dataclass(eq=False, repr=False)
class ObjectStore:
    """Objects below one root. Keys are relative to it and verbatim.

    Synchronous and thread-safe; methods on many keys keep many requests in flight. What is safe to repeat is tried
    again after transient errors; when the store says "slow down", fewer requests are made until it recovers.
    Odd keys (`keys.py`) are listed, and refused by everything else.
    """

    root: Location
    backend: Backend
    options: StorageOptions
    congestion: CongestionControl
    _has_container: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"ObjectStore({self.root.uri!r})"

    @property
    def is_key_ordered(self) -> bool:
        """Whether a listing comes in byte order, so that it has passed all that sorts before its last key."""
        return self.backend.is_key_ordered

    @property
    def signed_uploads(self) -> SignedUploads | None:
        """Multipart uploads whose parts others send; None where the store has none."""
        signer = self.backend.signer
        return None if signer is None else signer.uploads

    def sign_url(
        self, method: SignedMethod, key: str, life: timedelta, *, file_name: str = ""
    ) -> SignedUrl:
        """A URL that reads or writes one object without credentials; `UnsupportedStoreError` where there are none."""
        self._refuse_odd(key)
        if self.backend.signer is None:
            raise UnsupportedStoreError(
                f"{self.root.uri} is a store without presigned URLs; none was made.",
                kind=NO_PRESIGN,
            )
        return self.backend.signer.sign(method, key, life, file_name=file_name)

    def list(
        self, prefix: str = "", *, start_after: str | None = None, end_at: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `LISTING_SCHEMA`: every object whose key begins with `prefix`, in key order.

        Azure accounts with a hierarchical namespace order keys by folder; all others by bytes.

        Args:
            prefix: a plain prefix, not a folder: `data/a` finds `data/ab`.
            start_after: only keys that sort after this one.
            end_at: only keys up to this one, itself included.

        Raises:
            StorageError: the listing could not be read to its end. It never just stops.
        """
        scan = KeyRange(prefix, start_after, end_at)
        return merged_streams([lambda: self._scanner.scan(scan)], 1, _PAGES_AHEAD)

    def list_page(self, prefix: str, *, start_after: str) -> pa.RecordBatch | None:
        """The first of those objects that come after a key, as many as the store tells in one answer; None for none.

        Some servers, MinIO among them, read a folder to its end once a second page of it is asked for. Who wants only
        some of its keys asks for pages that begin there.
        """

        def page() -> pa.RecordBatch | None:
            scan = self.backend.scan(prefix, start_after)
            return next((batch for batch in scan if batch.num_rows), None)

        told = self._tried(prefix, page)
        if told is not None and not self._scanner.is_in_order(told, start_after):
            raise self._scanner.of_another_order(prefix)
        return told

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Only the keys of `list`, for folders that hold few: no thread reads ahead."""
        pages = self._scanner.scan(KeyRange(prefix))
        return (key for batch in pages for key in batch.column("key").to_pylist())

    def list_ranges(self, ranges: Sequence[KeyRange]) -> Iterator[tuple[KeyRange, pa.RecordBatch]]:
        """(range, batch) for all ranges, many at once; batches of different ranges come interleaved."""
        requests = self.backend.bare_lists()
        multiplexer = None if requests is None or not ranges else requests.multiplexer()
        if requests is not None and multiplexer is not None:
            about_to_wait()
            return self._scanner.scan_many(ranges, requests, multiplexer)

        def reader(scan: KeyRange) -> Callable[[], Iterator[tuple[KeyRange, pa.RecordBatch]]]:
            return lambda: ((scan, batch) for batch in self._scanner.scan(scan))

        workers = min(_LISTING_WORKERS, self.options.max_requests_in_flight)
        return merged_streams([reader(scan) for scan in ranges], workers, _PAGES_AHEAD * workers)

    def list_folder(self, prefix: str = "") -> Folder:
        """The folders and objects directly below `prefix`, which is empty or ends in "/"."""
        if prefix and not prefix.endswith("/"):
            raise ValueError(f"a folder's prefix ends in '/': {prefix!r}")
        return self._tried(prefix, lambda: self.backend.folder(prefix))

    def first_key(self, prefix: str = "", *, start_after: str | None = None) -> str | None:
        """The smallest key under `prefix` after `start_after`, or None."""
        return self._tried(prefix, lambda: self.backend.first_key(prefix, start_after))

    def read(self, key: str) -> bytes:
        """The whole object."""
        self._refuse_odd(key)
        return self._tried(key, lambda: self.backend.get(key))

    def read_exactly(self, key: str) -> bytes:
        """The whole object, under an odd key too where the store's own protocol carries it: reading harms nobody."""
        if not is_odd_key(key):
            return self.read(key)
        if not self.backend.reads_odd_keys:
            self._refuse_odd(key)
        return self._tried(key, lambda: self.backend.get(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer where the object ends before that, none past its end."""
        self._refuse_odd(key)
        if start < 0 or length < 0:
            raise ValueError(f"a range begins and extends at 0 or more: {start}, {length}")
        if length == 0:
            return b""
        if not may_wait() and isinstance(self.backend, LocalBackend):
            return self.backend.get_range_at_once(key, start, length)
        return self._tried(key, lambda: self.backend.get_range(key, start, length))

    def read_stream(self, key: str) -> Iterator[bytes]:
        """The whole object in chunks. An error half-way raises; it is not tried again."""
        self._refuse_odd(key)
        return self.backend.stream(key)

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """(key, whole object) in the order of `keys`, many at once."""
        return self._ordered(keys, self.backend.bare_gets(), self.read)

    def read_present(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """(key, whole object) in the order of `keys`, many at once; None where there is no such object."""

        def read(key: str) -> bytes | None:
            try:
                return self.read(key)
            except ObjectNotFoundError:
                return None

        return self._ordered(keys, self.backend.bare_gets(), read)

    def stat(self, key: str) -> ObjectInfo:
        """Size, time and etag of one object."""
        self._refuse_odd(key)
        return self._tried(key, lambda: self.backend.head(key))

    def find(self, key: str) -> ObjectInfo | None:
        """What `stat` says; None where there is no such object."""
        try:
            return self.stat(key)
        except ObjectNotFoundError as error:
            if error.kind == NO_CONTAINER:
                raise
            self._require_container()
            return None

    def stat_many(self, keys: Iterable[str]) -> Iterator[tuple[str, ObjectInfo | None]]:
        """(key, what `find` says) in the order of `keys`, many at once."""
        return self._ordered(keys, self.backend.bare_heads(), self.find)

    def ask_many(
        self, keys: Iterable[str]
    ) -> Iterator[tuple[str, ObjectInfo | StorageError | None]]:
        """(key, what `find` says, or why it could not tell) in the order of `keys`, many at once."""

        def ask(key: str) -> ObjectInfo | StorageError | None:
            try:
                return self.find(key)
            except StorageError as error:
                return error

        return self._ordered(keys, self.backend.bare_heads(), ask)

    def write(
        self, key: str, data: bytes, *, create: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        """Writes one object, wholly or not at all.

        Args:
            key: where to.
            data: its bytes.
            create: only if there is no such object yet.
            if_match: only over the version with this etag.

        Raises:
            ObjectExistsError: `create`, and it is there.
            PreconditionError: `if_match`, and another version is there.
            UnsupportedStoreError: the store can't do it atomically.
        """
        self._refuse_odd(key)
        if create and if_match is not None:
            raise ValueError("create and if_match exclude each other")
        # A conditional write whose answer was lost may have been done: repeating it would report a false conflict.
        is_plain = not create and if_match is None
        return self._tried(
            key,
            lambda: self.backend.put(key, data, create=create, if_match=if_match),
            is_safe_to_repeat=is_plain,
        )

    def can_create_if_absent(self, key: str) -> bool:
        """Whether `write(create=True)` refuses what is there, tried on an object that is there.

        Some stores that speak S3 take no notice of the condition: then the object is empty afterwards.
        """
        try:
            self._tried(key, lambda: self.backend.put(key, b"", create=True, if_match=None))
        except ObjectExistsError:
            return True
        except UnsupportedStoreError:
            pass
        return False

    def write_new(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Writes several (key, bytes) under keys that nobody else knows yet; all are durable when it returns.

        After an error some of them may be there; local files are not, but where the process died.
        """
        for key, _ in objects:
            self._refuse_odd(key)
        if isinstance(self.backend, LocalBackend):
            self.backend.put_new(objects)
        else:
            for key, data in objects:
                self.write(key, data)

    def write_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        """Writes one object of any size from its chunks, wholly or not at all."""
        self._refuse_odd(key)
        about_to_wait()
        with self.congestion.slot(folder_of(key)):
            return self.backend.put_stream(key, chunks)

    def copy(self, source_key: str, target_key: str) -> None:
        """Copies one object within this store, on the server's side."""
        self._refuse_odd(source_key)
        self._refuse_odd(target_key)
        own = self.backend
        self._tried(target_key, lambda: own.copy_from(own, source_key, target_key))

    def copy_from(self, source: ObjectStore, source_key: str, target_key: str) -> None:
        """Copies an object of another store to here: on the server's side where that is possible, else streamed."""
        self._refuse_odd(source_key)
        self._refuse_odd(target_key)
        if source.options == self.options and self._tried(
            target_key, lambda: self.backend.copy_from(source.backend, source_key, target_key)
        ):
            return
        promised = source.stat(source_key).size
        written = self.write_stream(target_key, source.read_stream(source_key))
        if written.size != promised:
            raise StorageError(
                f"copying {source_key!r} to {self.root.child(target_key).uri} wrote {written.size} bytes where "
                f"{promised} were promised; the copy can't be relied on."
            )

    def delete_many(
        self,
        keys: Sequence[str],
        *,
        seconds_left: Callable[[], float] = forever,
        expected: Mapping[str, ObjectInfo] | None = None,
    ) -> DeleteOutcomes:
        """Deletes every key; one outcome for each, in the same order. Never raises for a single key's sake.

        Args:
            keys: what to delete.
            seconds_left: how long deleting is still allowed, asked before every request and every retry; no pause is
                longer. Keys for which nothing was sent in time come out as NOT_TRIED.
            expected: what the objects were when they were chosen. Each of these is looked up first; where another
                size, time or etag is found, the key is kept and comes out as CHANGED. What was looked at goes
                with the delete as a condition, where the store can carry one.
        """
        bulk = BulkDelete(self.backend, self.congestion, self.options, seconds_left)
        return bulk.run(keys) if expected is None else bulk.run_expected(keys, expected, self.find)

    @property
    def _scanner(self) -> Scanner:
        return Scanner(self.root, self.backend, self.options, self.congestion)

    def _ordered(
        self,
        keys: Iterable[str],
        requests: StoreKeyRequests[Result] | None,
        ask: Callable[[str], Result],
    ) -> Iterator[tuple[str, Result]]:
        """(key, what `ask` says) in the order of `keys`, many at once: by `requests` where there are some."""
        most = self.options.max_requests_in_flight
        are_few = most == 1 or (isinstance(keys, Sized) and len(keys) < _WORTH_MULTIPLEXING)
        multiplexer = None if are_few or requests is None else requests.multiplexer()
        if requests is None or multiplexer is None:
            return ordered_parallel(ask, keys, most)
        about_to_wait()
        return ordered_requests(keys, requests, multiplexer, ask, self.congestion, most)

    def _refuse_odd(self, key: str) -> None:
        if is_odd_key(key):
            raise UnsupportedStoreError(
                f"key {key!r} in {self.root.uri} can't be carried unchanged; nothing was done with it.",
                kind=ODD_KEY,
            )

    def _require_container(self) -> None:
        """Raises when the bucket is missing: a look-up's 404 says the same of a missing object and a missing bucket."""
        if not self._has_container:
            self.first_key()
            self._has_container = True

    def _tried(
        self, key: str, action: Callable[[], Result], *, is_safe_to_repeat: bool = True
    ) -> Result:
        about_to_wait()
        patience = Patience(self.options)
        prefix = folder_of(key)
        while True:
            try:
                with self.congestion.slot(prefix):
                    result = action()
            except StorageError as error:
                is_throttled = isinstance(error, ThrottledError)
                if is_throttled:
                    self.congestion.throttled(prefix)
                if not (is_safe_to_repeat or is_throttled) or not patience.try_again(error):
                    raise
            else:
                self.congestion.succeeded(prefix)
                return result
