"""The object store of a scheduled lake: in memory, and every request is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.memory import MemoryBackend
from lakesweep.storage.values import (
    DeleteOutcome,
    DeleteOutcomes,
    DeleteStatus,
    Folder,
    ObjectInfo,
    forever,
    is_same_object,
)
from lakesweep_testing.schedules.stepped_kv import Step
from lakesweep_testing.schedules.steps import OBJECTS, Access


class SteppedStore(ObjectStore):
    """Waits for its turn before each request. No threads: a bulk delete deletes key after key, each a step."""

    def __init__(self, root: Location, backend: MemoryBackend, step: Step) -> None:
        super().__init__(root, backend, StorageOptions(), CongestionControl(1))
        self._memory = backend
        self._step = step

    def _reads(self, verb: str, key: str, *, is_range: bool = False) -> None:
        self._step(Access(verb, OBJECTS, key, is_write=False, is_range=is_range))

    def list(
        self, prefix: str = "", *, start_after: str | None = None, end_at: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        self._reads("list", prefix, is_range=True)
        batches = list(self._memory.scan(prefix, start_after))
        if end_at is None:
            return iter(batches)
        return (batch.filter(pc.less_equal(batch.column("key"), end_at)) for batch in batches)

    def times(self, prefix: str) -> dict[str, datetime]:
        """When each object below a prefix was written: a listing without its columns."""
        self._reads("list", prefix, is_range=True)
        keys = self._memory._keys(prefix, None)
        return {key: self._memory._stored(key).last_modified for key in keys}

    def keys(self, prefix: str = "") -> Iterator[str]:
        self._reads("list", prefix, is_range=True)
        return iter(self._memory._keys(prefix, None))

    def list_folder(self, prefix: str = "") -> Folder:
        self._reads("list", prefix, is_range=True)
        return self._memory.folder(prefix)

    def first_key(self, prefix: str = "", *, start_after: str | None = None) -> str | None:
        self._reads("list", prefix, is_range=True)
        return self._memory.first_key(prefix, start_after)

    def read(self, key: str) -> bytes:
        self._reads("read", key)
        return self._memory.get(key)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        self._reads("read", key)
        return self._memory.get_range(key, start, length)

    def read_stream(self, key: str) -> Iterator[bytes]:
        self._reads("read", key)
        return self._memory.stream(key)

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((key, self.read(key)) for key in keys)

    def stat(self, key: str) -> ObjectInfo:
        self._reads("stat", key)
        return self._memory.head(key)

    def find(self, key: str) -> ObjectInfo | None:
        try:
            return self.stat(key)
        except ObjectNotFoundError:
            return None

    def stat_many(self, keys: Iterable[str]) -> Iterator[tuple[str, ObjectInfo | None]]:
        return ((key, self.find(key)) for key in keys)

    def write(
        self, key: str, data: bytes, *, create: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        self._step(Access("create" if create else "write", OBJECTS, key, is_write=True))
        return self._memory.put(key, data, create=create, if_match=if_match)

    def write_new(self, objects: Sequence[tuple[str, bytes]]) -> None:
        for key, data in objects:
            self.write(key, data)

    def write_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        return self.write(key, b"".join(chunks))

    def copy(self, source_key: str, target_key: str) -> None:
        data = self.read(source_key)
        self.write(target_key, data)

    def delete_many(
        self,
        keys: Sequence[str],
        *,
        seconds_left: Callable[[], float] = forever,
        expected: Mapping[str, ObjectInfo] | None = None,
    ) -> DeleteOutcomes:
        return DeleteOutcomes.of(
            [self._delete(key, seconds_left, (expected or {}).get(key)) for key in keys]
        )

    def _delete(
        self, key: str, seconds_left: Callable[[], float], expected: ObjectInfo | None
    ) -> DeleteOutcome:
        if expected is not None:
            found = self.find(key)
            if found is not None and not is_same_object(expected, found):
                return DeleteOutcome(key, DeleteStatus.CHANGED)
        self._step(Access("delete", OBJECTS, key, is_write=True))
        # A request takes no time here: how long a real one may take is covered by a margin of its own.
        if seconds_left() <= 0:
            return DeleteOutcome(key, DeleteStatus.NOT_TRIED)
        return self._memory.delete([key])[0]
