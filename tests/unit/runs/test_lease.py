"""One collector at a time: two at once, a dead one, one that was overtaken."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.runs import lease as lease_module
from lakesweep.runs.lease import FOLDER, Lease, NoLease
from lakesweep.storage import ObjectStore, open_store


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location.parse(f"mem://lease-{uuid.uuid4().hex}/ns"))


def test_second_collector_is_refused_while_the_first_works(store: ObjectStore) -> None:
    """Two runs at once on one repository: the second deletes nothing and says who works."""
    with Lease(store, "repo", "gc"), pytest.raises(UnsafeToSweepError, match="gc on") as caught:
        Lease(store, "repo", "sweep").__enter__()
    assert caught.value.kind == "lease-held"


def test_released_lease_can_be_taken_at_once(store: ObjectStore) -> None:
    """After a run has ended, the next one need not wait."""
    with Lease(store, "repo", "gc"):
        pass
    with Lease(store, "repo", "gc") as second:
        second.assert_held()
        assert second.store_time is not None


def test_lease_of_a_dead_process_of_this_machine_is_taken_over(store: ObjectStore) -> None:
    """A killed run on this machine blocks nobody."""
    dead = Lease(store, "repo", "gc")
    dead.__enter__()
    dead._stop.set()
    key = next(k for b in store.list(FOLDER) for k in b.column("key").to_pylist())
    values = json.loads(store.read(key)) | {"pid": 2**22 - 3}
    store.write(key, json.dumps(values).encode())
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_lease_of_another_host_is_taken_over_only_when_it_ran_out(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere a process may live though we can't see it: its lease must run out first."""
    content = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}
    store.write(f"{FOLDER}000000000001.json", json.dumps(content).encode())
    with pytest.raises(UnsafeToSweepError, match="elsewhere"):
        Lease(store, "repo", "gc").__enter__()
    monkeypatch.setattr(lease_module, "LIFE", timedelta(seconds=-1))
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_overtaken_collector_stops(store: ObjectStore) -> None:
    """A lease lost in the middle is found out before the next batch."""
    with Lease(store, "repo", "gc") as first:
        content = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}
        store.write(f"{FOLDER}000000000002.json", json.dumps(content).encode())
        with pytest.raises(UnsafeToSweepError, match="lost to another collector"):
            first.assert_held()
    # The first one, on leaving, must not have released the second one's lease.
    assert not json.loads(store.read(f"{FOLDER}000000000002.json"))["released"]


def test_unreadable_lease_counts_as_held(store: ObjectStore) -> None:
    """Doubt about the lease keeps the data."""
    store.write(f"{FOLDER}000000000001.json", b"\x00")
    with pytest.raises(UnsafeToSweepError, match="unreadable"):
        Lease(store, "repo", "gc").__enter__()


def test_no_lease_still_reads_the_clock_of_the_store(store: ObjectStore) -> None:
    """Without a lease, ages are told by the store's clock all the same."""
    with NoLease(store, "repo", "gc") as none:
        assert none.store_time is not None
        none.assert_held()
    assert not any(batch.num_rows for batch in store.list(FOLDER))
