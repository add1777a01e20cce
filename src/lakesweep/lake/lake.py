"""The lake: one object with every operation that the REST routes and the S3 gateway translate requests into."""

from __future__ import annotations

from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.lake_collection import CollectionOperations
from lakesweep.lake.lake_history import HistoryOperations
from lakesweep.lake.lake_objects import ObjectOperations
from lakesweep.lake.values import Clock, LakeSettings
from lakesweep.lake.wiring import wire_parts


class Lake(HistoryOperations, ObjectOperations, CollectionOperations):
    """A versioned store: refs and staging in a key-value store, data and commits in object stores.

    Thread-safe. Several processes may hold a `Lake` over one PostgreSQL; nothing is kept in memory but caches of
    immutable files and each process's own slice.
    """

    def __init__(self, kv: KeyValueStore, settings: LakeSettings, clock: Clock) -> None:
        self.settings = settings
        self._parts = wire_parts(kv, settings, clock)

    def close(self) -> None:
        """Wait for background tasks and let go of the ref store."""
        self._parts.tasks.close()
        self._parts.kv.close()
