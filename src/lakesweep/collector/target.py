"""What every work function is told about the store it works on."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from lakesweep.domain.location import Location
from lakesweep.storage import ObjectStore, StorageOptions, open_store


@dataclass(frozen=True, slots=True)
class Target:
    """A storage namespace and how to reach it; small and picklable, so that it travels with each task."""

    namespace: Location
    storage: StorageOptions
    namespace_root: str | None = None

    def open(self) -> ObjectStore:
        """The store, rooted at the namespace."""
        return open_store(self.namespace, self.storage)


def own_name(folder: str, stem: str, suffix: str) -> str:
    """A file name that no other attempt of the same task can have: only returned names count."""
    return f"{folder}{stem}-{uuid.uuid4().hex}{suffix}"
