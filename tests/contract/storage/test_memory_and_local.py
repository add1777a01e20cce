"""The contract of stores that need no server."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep_testing.store_contract import FullContract, PutObject


@pytest.fixture
def other_store() -> ObjectStore:
    """A store of another kind, to copy from."""
    return open_store(Location.parse(f"mem://{uuid.uuid4()}/other"), StorageOptions())


@pytest.fixture
def put_object(store: ObjectStore) -> PutObject:
    return store.write


class TestMemory(FullContract):
    """`mem://` keeps the contract."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        return open_store(Location.parse(f"mem://{uuid.uuid4()}/root"), StorageOptions())


class TestLocal(FullContract):
    """`file://` keeps the contract."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        root = Location.parse(f"file://{tmp_path}/root")
        return open_store(root, StorageOptions(local_fsync=False))
