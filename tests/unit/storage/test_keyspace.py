"""A large prefix listed in parts: the parts are the whole, and are about equal for the names that lakeFS gives."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.location import Location
from lakesweep.storage import (
    KeyRange,
    ObjectStore,
    StorageOptions,
    keyspace,
    open_store,
    ranges_after,
    scan_direct,
)

NAMES = st.text("0123abcXYZ-~ éü/", min_size=1, max_size=6)
KEYS = st.lists(NAMES, unique=True, max_size=40)


def filled(keys: list[str]) -> ObjectStore:
    store = open_store(Location.parse(f"mem://{uuid.uuid4()}"), StorageOptions())
    for key in keys:
        store.backend.put(key, b"", create=False, if_match=None)
    return store


def listed(store: ObjectStore, part: KeyRange) -> list[str]:
    return [k for _, batch in store.list_ranges([part]) for k in batch.column("key").to_pylist()]


@given(keys=KEYS, bounds=st.tuples(NAMES, NAMES), parts=st.integers(0, 9), end=st.none() | NAMES)
def test_the_parts_are_the_whole(
    keys: list[str], bounds: tuple[str, str], parts: int, end: str | None
) -> None:
    """Every key after the last one read is in exactly one part, in order, whatever the names."""
    store = filled([f"p/{key}" for key in keys])
    first, last = sorted(f"p/{name}" for name in bounds)
    end_at = None if end is None else f"p/{end}"
    if end_at is not None and end_at < last:
        return
    ranges = ranges_after(KeyRange("p/", None, end_at), first, last, parts)
    assert 1 <= len(ranges) <= max(1, parts)
    wanted = sorted(f"p/{key}" for key in keys)
    wanted = [key for key in wanted if last < key and (end_at is None or key <= end_at)]
    assert [key for part in ranges for key in listed(store, part)] == wanted


@pytest.mark.parametrize("form", ["{:020d}", "{:032x}", "cg{:018d}", "2024-01-01T{:08d}"])
def test_even_names_give_even_parts(form: str) -> None:
    """Counted names fall apart into parts of about the size that was read."""
    keys = sorted(f"p/{form.format(number)}" for number in range(800))
    store = filled(keys)
    ranges = ranges_after(KeyRange("p/"), keys[0], keys[99], 8)
    sizes = [len(listed(store, part)) for part in ranges]
    assert len(sizes) >= 6
    assert max(sizes) <= 300


def test_a_listing_may_stop_after_so_many_keys() -> None:
    """At the end of a page; without a limit, or with one that is not reached, it has all."""
    keys = [f"p/{number:05}" for number in range(2_500)]
    store = filled(keys)
    some = listed(store, KeyRange("p/", most=1_000))
    assert some == keys[: len(some)]
    assert 1_000 <= len(some) < 2_500
    assert listed(store, KeyRange("p/", most=9_999)) == keys


@given(
    keys=st.lists(st.text("ab/é", min_size=1, max_size=6), unique=True, max_size=40),
    after=st.none() | st.text("ab/", max_size=3),
    end=st.none() | st.text("ab/", max_size=3),
    most=st.integers(1, 3),
)
def test_what_lies_directly_in_a_folder_is_found_past_all_others(
    keys: list[str], after: str | None, end: str | None, most: int
) -> None:
    """Folders are passed over, few or many, and names of any length between them are found."""
    store = filled([f"p/{key}" for key in keys])
    scan = KeyRange("p/", after and f"p/{after}", None if end is None else f"p/{end}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyspace, "_MOST_PASSED_OVER", most)
        found = [k for batch in scan_direct(store, scan) for k in batch.column("key").to_pylist()]
    wanted = sorted(f"p/{key}" for key in keys if "/" not in key)
    if scan.start_after is not None:
        wanted = [key for key in wanted if key > scan.start_after]
    if scan.end_at is not None:
        wanted = [key for key in wanted if key <= scan.end_at]
    assert found == wanted


def test_what_lies_behind_a_folder_of_several_pages_is_found() -> None:
    """A page that ends inside a folder is not the end of what lies beside it."""
    inside = [f"p/a/{number:05}" for number in range(2_500)]
    store = filled([*inside, "p/b", "p/c/x", "p/d"])
    found = [k for b in scan_direct(store, KeyRange("p/")) for k in b.column("key").to_pylist()]
    assert found == ["p/b", "p/d"]
