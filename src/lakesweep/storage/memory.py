"""Objects in this process's memory, for tests and for `mem://` namespaces. Equal names share their objects."""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.errors import ObjectExistsError, ObjectNotFoundError, PreconditionError
from lakesweep.storage.backend import Backend
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.values import (
    NO_TERMS,
    DeleteOutcome,
    DeleteStatus,
    DeleteTerms,
    Folder,
    ObjectInfo,
    empty_listing,
    listing_batch,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class _Stored:
    data: bytes
    last_modified: datetime
    etag: str


class MemoryContainer:
    """All objects of one `mem://` name. `clock` is replaceable so that tests can age objects."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.objects: dict[str, _Stored] = {}
        self._writes = 0

    def store(self, key: str, data: bytes) -> _Stored:
        """Keeps `data`; the etag differs for every write, as a version would."""
        with self.lock:
            self._writes += 1
            digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
            stored = _Stored(data, self.clock(), f'"{digest}-{self._writes}"')
            self.objects[key] = stored
            return stored


_containers: dict[str, MemoryContainer] = {}
_containers_lock = threading.Lock()


def memory_container(name: str) -> MemoryContainer:
    """The container of that name, made when first asked for."""
    with _containers_lock:
        return _containers.setdefault(name, MemoryContainer())


class MemoryBackend:
    """A container seen from a root."""

    delete_batch_size = 1000
    is_key_ordered = True
    reads_odd_keys = False
    signer: UrlSigner | None = None

    def __init__(self, container: MemoryContainer, root_key: str) -> None:
        self.container = container
        self._base = root_key + "/" if root_key else ""

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        keys = self._keys(prefix, start_after)
        for first in range(0, len(keys), _BATCH_ROWS):
            yield self._batch(keys[first : first + _BATCH_ROWS])

    def folder(self, prefix: str) -> Folder:
        folders: set[str] = set()
        objects: list[str] = []
        for key in self._keys(prefix, None):
            name, slash, _ = key[len(prefix) :].partition("/")
            if slash:
                folders.add(f"{prefix}{name}/")
            else:
                objects.append(key)
        return Folder(tuple(sorted(folders)), self._batch(objects) if objects else empty_listing())

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        return next(iter(self._keys(prefix, start_after)), None)

    def bare_gets(self) -> None:
        """None: there are no requests of our own."""

    def bare_heads(self) -> None:
        """None: there are no requests of our own."""

    def bare_lists(self) -> None:
        """None: there are no requests of our own."""

    def get(self, key: str) -> bytes:
        return self._stored(key).data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._stored(key).data[start : start + length]

    def stream(self, key: str) -> Iterator[bytes]:
        yield self._stored(key).data

    def head(self, key: str) -> ObjectInfo:
        return self._info(key, self._stored(key))

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        with self.container.lock:
            present = self.container.objects.get(self._base + key)
            if create and present is not None:
                raise ObjectExistsError(
                    f"creating {key!r} failed: it exists already; nothing was written."
                )
            if if_match is not None and (present is None or present.etag != if_match):
                raise PreconditionError(
                    f"writing {key!r} failed: the store holds another version; nothing was written."
                )
            return self._info(key, self.container.store(self._base + key, bytes(data)))

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        return self.put(key, b"".join(chunks), create=False, if_match=None)

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        if not isinstance(source, MemoryBackend):
            return False
        self.container.store(self._base + target_key, source.get(source_key))
        return True

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        with self.container.lock:
            return [DeleteOutcome(key, self._delete_one(key, terms.etags.get(key))) for key in keys]

    def _delete_one(self, key: str, etag: str | None) -> DeleteStatus:
        present = self.container.objects.get(self._base + key)
        if present is None:
            return DeleteStatus.ALREADY_ABSENT
        if etag is not None and present.etag != etag:
            return DeleteStatus.CHANGED
        del self.container.objects[self._base + key]
        return DeleteStatus.GONE

    def _stored(self, key: str) -> _Stored:
        stored = self.container.objects.get(self._base + key)
        if stored is None:
            raise ObjectNotFoundError(f"reading {key!r} failed: there is no such object.")
        return stored

    def _keys(self, prefix: str, start_after: str | None) -> list[str]:
        with self.container.lock:
            keys = sorted(
                key for key in self.container.objects if key.startswith(self._base + prefix)
            )
        relative = [key[len(self._base) :] for key in keys]
        return relative if start_after is None else relative[bisect_right(relative, start_after) :]

    def _batch(self, keys: Sequence[str]) -> pa.RecordBatch:
        rows = [
            (key, stored)
            for key in keys
            if (stored := self.container.objects.get(self._base + key)) is not None
        ]
        return listing_batch(
            [key for key, _ in rows],
            [len(stored.data) for _, stored in rows],
            [(stored.last_modified - _EPOCH) // timedelta(microseconds=1) for _, stored in rows],
            [stored.etag for _, stored in rows],
        )

    @staticmethod
    def _info(key: str, stored: _Stored) -> ObjectInfo:
        return ObjectInfo(key, len(stored.data), stored.last_modified, stored.etag)
