"""Splitting a flat prefix: the parts are the whole, and are about equal for the names that lakeFS gives."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.location import Location
from lakesweep.storage import KeyRange, ObjectStore, StorageOptions, open_store, split_keyspace

KEYS = st.lists(st.text("0123abcXYZ-~ éü/", min_size=1, max_size=6), unique=True, max_size=40)


def filled(keys: list[str]) -> ObjectStore:
    store = open_store(Location.parse(f"mem://{uuid.uuid4()}"), StorageOptions())
    for key in keys:
        store.backend.put(f"p/{key}", b"", create=False, if_match=None)
    return store


def listed(store: ObjectStore, part: KeyRange) -> list[str]:
    batches = store.list(part.prefix, start_after=part.start_after, end_at=part.end_at)
    return [key for batch in batches for key in batch.column("key").to_pylist()]


@given(keys=KEYS, parts=st.integers(0, 9))
def test_the_parts_are_the_whole(keys: list[str], parts: int) -> None:
    """Every key is in exactly one part, in order, whatever the names."""
    store = filled(keys)
    ranges = split_keyspace(store, "p/", parts)
    assert 1 <= len(ranges) <= max(1, parts)
    assert [key for part in ranges for key in listed(store, part)] == sorted(f"p/{k}" for k in keys)


@pytest.mark.parametrize("form", ["{:020d}", "{:032x}", "cg{:018d}", "2024-01-01T{:08d}"])
def test_even_names_give_even_parts(form: str) -> None:
    """Counted names fall apart into parts of similar size."""
    store = filled([form.format(number) for number in range(800)])
    sizes = [len(listed(store, part)) for part in split_keyspace(store, "p/", 8)]
    assert len(sizes) >= 6
    assert max(sizes) <= 300
