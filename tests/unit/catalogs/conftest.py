"""A fake lakeFS server over a memory store, new for each test."""

from __future__ import annotations

import uuid

import pytest

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions, open_store
from lakesweep_testing.fake_lakefs import FakeLakeFS


@pytest.fixture
def namespace() -> Location:
    return Location.parse(f"mem://{uuid.uuid4().hex}/ns")


@pytest.fixture
def store(namespace):
    return open_store(namespace, StorageOptions())


@pytest.fixture
def normaliser(namespace) -> AddressNormaliser:
    return AddressNormaliser(namespace)


@pytest.fixture
def fake(store, namespace) -> FakeLakeFS:
    return FakeLakeFS(store, namespace.uri)
