"""What every part of the lake works with: ref store, settings, clock, and the repositories' object stores."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from lakesweep.domain.location import Location
from lakesweep.lake.addresses.reach import Reach
from lakesweep.lake.kv.interface import PAGE_ROWS, KeyValueStore, Row, scan
from lakesweep.lake.values import Clock, LakeSettings, Repository
from lakesweep.storage import ObjectStore, open_store
from lakesweep.storage.waiting import about_to_wait

# Each folder that something was imported from has a store of its own.
_MOST_OPEN_STORES = 256


@dataclass(frozen=True, slots=True)
class LakeContext:
    """Shared by all parts; holds no state of its own but opened stores."""

    kv: KeyValueStore
    settings: LakeSettings
    clock: Clock
    reach: Reach = field(init=False)
    _stores: OrderedDict[Location, ObjectStore] = field(default_factory=OrderedDict)
    _stores_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        settings = self.settings
        reach = Reach(settings.data_dir, settings.allow_namespaces, settings.allow_imports)
        object.__setattr__(self, "reach", reach)

    def now(self) -> datetime:
        """The time, in UTC."""
        return self.clock()

    def hard_deletes(self, repository: Repository) -> bool:
        """Whether the repository's objects are deleted for good soon after their last reference."""
        own = repository.hard_delete
        return self.settings.hard_delete if own is None else own

    def locate(self, uri: str) -> Location:
        """The place a URI means, `local://NAME` being a folder of this lake."""
        return _parse(uri, self.settings.data_dir)

    def namespace(self, repository: Repository) -> Location:
        """Where the repository's objects lie."""
        return self.locate(repository.storage_namespace)

    def store(self, repository: Repository) -> ObjectStore:
        """The object store at the repository's namespace; keys are relative to it.

        Raises:
            ForbiddenError: the namespace lies where the operator does not (any more) let this server go.
        """
        location = self.namespace(repository)
        store = self._find_open(location)
        if store is None:
            about_to_wait()
            self.reach.check_namespace(repository.storage_namespace)
            store = self.open(location)
        return store

    def rows(
        self,
        repository: Repository,
        prefix: bytes,
        *,
        after: bytes | None = None,
        page_rows: int = PAGE_ROWS,
    ) -> Iterator[Row]:
        """The repository's records whose keys have the prefix, in key order, after a key (exclusive)."""
        partition = partition_of(repository)
        return scan(self.kv, partition, prefix=prefix, after=after, page_rows=page_rows)

    def open(self, location: Location) -> ObjectStore:
        """The object store at a place. Those used last stay open."""
        store = self._find_open(location)
        if store is None:
            about_to_wait()
            store = open_store(location, self.settings.storage)
            with self._stores_lock:
                store = self._stores.setdefault(location, store)
                while len(self._stores) > _MOST_OPEN_STORES:
                    self._stores.popitem(last=False)
        return store

    def _find_open(self, location: Location) -> ObjectStore | None:
        with self._stores_lock:
            store = self._stores.get(location)
            if store is not None:
                self._stores.move_to_end(location)
            return store


@lru_cache(maxsize=1024)
def _parse(uri: str, data_dir: Path) -> Location:
    return Location.parse(uri, namespace_root=str(data_dir.absolute()))


def partition_of(repository: Repository) -> str:
    """The ref store's partition of a repository. A later repository of the same name gets another."""
    return f"{repository.id}-{repository.instance_uid}"


def full_address(repository: Repository, relative: str) -> str:
    """The URI of a key in the namespace, as clients see it."""
    return f"{repository.storage_namespace.rstrip('/')}/{relative}"
