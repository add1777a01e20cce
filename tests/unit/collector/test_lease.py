"""One collector at a time: two at once, a dead one, one that was overtaken."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.collector import lease as lease_module
from lakesweep.collector.lease import LEASES, Lease, NoLease
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.location import Location
from lakesweep.engine.process_tree import NO_OTHER_PROCESS, VARIABLE
from lakesweep.errors import (
    StorageError,
    ThrottledError,
    UnsafeToSweepError,
    UnsupportedStoreError,
)
from lakesweep.storage import LISTING_SCHEMA, ObjectInfo, ObjectStore, open_store
from lakesweep.storage.values import Folder


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location.parse(f"mem://lease-{uuid.uuid4().hex}/ns"))


def test_second_collector_is_refused_while_the_first_works(store: ObjectStore) -> None:
    """Two runs at once on one repository: the second deletes nothing and says who works."""
    with Lease(store, "repo", "gc"), pytest.raises(UnsafeToSweepError, match="gc on") as caught:
        Lease(store, "repo", "sweep").__enter__()
    assert caught.value.kind == "lease-held"


def test_a_store_that_writes_over_what_it_should_only_create_holds_no_lease(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some stores that speak S3 take no notice of If-None-Match: two takers of one number would both believe they have it."""
    plain = store.backend.put

    def put(key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        return plain(key, data, create=False, if_match=if_match)

    monkeypatch.setattr(store.backend, "put", put)
    with pytest.raises(UnsupportedStoreError) as refused:
        Lease(store, "repo", "gc").__enter__()
    assert refused.value.kind == "no-lease"
    assert not list(store.keys())


def test_released_lease_can_be_taken_at_once(store: ObjectStore) -> None:
    """After a run has ended, the next one need not wait."""
    with Lease(store, "repo", "gc"):
        pass
    with Lease(store, "repo", "gc") as second:
        second.assert_held()
        assert second.store_time is not None


def test_a_lease_that_was_made_while_the_store_said_slow_down_is_ours(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is asked for again, and finds its own file: nobody else has it, and nobody would give it back."""
    plain, busy = store.backend.put, [True]

    def put(key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        info = plain(key, data, create=create, if_match=if_match)
        if create and busy.pop():
            raise ThrottledError("slow down")
        return info

    monkeypatch.setattr(store.backend, "put", put)
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()
        assert taken.store_time is not None


@pytest.mark.parametrize(("hours", "is_refused"), [(-7, True), (2, True), (0, False)])
def test_a_store_that_lists_other_times_than_it_tells_is_refused(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, hours: int, is_refused: bool
) -> None:
    """Local time that calls itself UTC, say: every listed object would be some hours older than it is."""
    plain = store.backend.folder

    def in_local_time(prefix: str) -> Folder:
        told = plain(prefix)
        times = pc.add(told.objects.column("last_modified"), pa.scalar(timedelta(hours=hours)))
        return replace(told, objects=told.objects.set_column(2, LISTING_SCHEMA.field(2), times))

    monkeypatch.setattr(store.backend, "folder", in_local_time)
    lease = Lease(store, "repo", "gc")
    if not is_refused:
        with lease:
            return
    with pytest.raises(UnsafeToSweepError, match="in a listing") as refused:
        lease.__enter__()
    assert refused.value.kind == "clock-skew"
    assert lease.told_holder(datetime.now(UTC)) == "", "it was given back"


def leave_dead(store: ObjectStore, process_tree: str, life: timedelta = timedelta(0)) -> None:
    """A lease of a process of this machine that is gone, whose tasks' processes carry that mark."""
    dead = Lease(store, "repo", "gc", process_tree=lambda: process_tree)
    dead.__enter__()
    dead.renew(life)
    dead._stop.set()
    key = next(k for b in store.list(LEASES) for k in b.column("key").to_pylist())
    values = json.loads(store.read(key)) | {"pid": 2**22 - 3}
    store.write(key, json.dumps(values).encode())


def test_lease_of_a_dead_process_of_this_machine_is_taken_over(store: ObjectStore) -> None:
    """A killed run whose tasks are gone, too, blocks nobody."""
    leave_dead(store, NO_OTHER_PROCESS)
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_lease_of_a_dead_driver_with_tasks_elsewhere_must_run_out(store: ObjectStore) -> None:
    """A cluster's executors may go on deleting when their driver is gone."""
    leave_dead(store, "")
    with pytest.raises(UnsafeToSweepError, match="its tasks may live") as caught:
        Lease(store, "repo", "gc").__enter__()
    assert caught.value.kind == "lease-held"
    wait(store, timedelta(minutes=16))
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_lease_of_another_users_dead_run_must_run_out(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but that user and root could see whether its tasks are left."""
    leave_dead(store, uuid.uuid4().hex)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with pytest.raises(UnsafeToSweepError, match="its tasks may live"):
        Lease(store, "repo", "gc").__enter__()


def wait(store: ObjectStore, time: timedelta) -> None:
    """Let so much time pass on the store's clock."""
    at = datetime.now(UTC) + time
    store.backend.container.clock = lambda: at  # type: ignore[attr-defined]


def test_lease_of_a_dead_driver_waits_for_its_last_task(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that outlived its driver keeps the lease; when it is gone, the lease is free."""
    monkeypatch.setattr(lease_module, "_TASKS_END_WITHIN_SECONDS", 0.0)
    mark = uuid.uuid4().hex
    leave_dead(store, mark)
    worker = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={VARIABLE: mark})
    with worker:
        with pytest.raises(UnsafeToSweepError, match="its tasks may live"):
            Lease(store, "repo", "gc").__enter__()
        worker.kill()
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_renewal_tells_the_time_of_the_store_and_where_tasks_are(store: ObjectStore) -> None:
    """A lease that is renewed lasts anew, and names the processes that have started since."""
    container = store.backend.container  # type: ignore[attr-defined]
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    container.clock = lambda: begun
    marks = [""]
    with Lease(store, "repo", "gc", process_tree=lambda: marks[0]) as lease:
        marks[0] = "mark"
        container.clock = lambda: begun + timedelta(minutes=14)
        assert lease.renew() == begun + timedelta(minutes=14)
        (key,) = store.keys(LEASES)
        assert json.loads(store.read(key))["process_tree"] == "mark"
        container.clock = lambda: begun + timedelta(minutes=28)
        with pytest.raises(UnsafeToSweepError, match="Another collector"):
            Lease(store, "repo", "gc").__enter__()


def test_lost_lease_is_not_renewed(store: ObjectStore) -> None:
    """Who was overtaken gets no time to go on from."""
    with Lease(store, "repo", "gc") as first:
        content = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}
        store.write(f"{LEASES}000000000002.json", json.dumps(content).encode())
        with pytest.raises(UnsafeToSweepError, match="lost to another collector"):
            first.renew()


def test_lease_of_another_host_is_taken_over_only_when_it_ran_out(
    store: ObjectStore,
) -> None:
    """Elsewhere a process may live though we can't see it: its lease must run out first."""
    content = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}
    content["life_seconds"] = 15 * 60
    store.write(f"{LEASES}000000000001.json", json.dumps(content).encode())
    wait(store, timedelta(minutes=14))
    with pytest.raises(UnsafeToSweepError, match="elsewhere"):
        Lease(store, "repo", "gc").__enter__()
    wait(store, timedelta(minutes=16))
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


@pytest.mark.parametrize("kind", ["renewed", "silent", "unreadable"])
def test_lease_lasts_as_long_as_its_owner_said(store: ObjectStore, kind: str) -> None:
    """Who authorises deletes for long makes its lease last longer; one that does not say may be of the longest."""
    longest = SAFETY_FULL.lease_life_for(SAFETY_FULL.longest_not_after)
    leave_dead(store, "", life=longest)
    (key,) = store.keys(LEASES)
    values = json.loads(store.read(key))
    if kind == "silent":
        del values["life_seconds"]
    store.write(key, b"\x00" if kind == "unreadable" else json.dumps(values).encode())
    wait(store, longest - timedelta(minutes=1))
    with pytest.raises(UnsafeToSweepError) as caught:
        Lease(store, "repo", "gc").__enter__()
    assert caught.value.kind == "lease-held"
    wait(store, longest + timedelta(minutes=1))
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_overtaken_collector_stops(store: ObjectStore) -> None:
    """A lease lost in the middle is found out before the next batch."""
    with Lease(store, "repo", "gc") as first:
        content = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}
        store.write(f"{LEASES}000000000002.json", json.dumps(content).encode())
        with pytest.raises(UnsafeToSweepError, match="lost to another collector"):
            first.assert_held()
    # The first one, on leaving, must not have released the second one's lease.
    assert not json.loads(store.read(f"{LEASES}000000000002.json"))["released"]


def test_a_number_that_became_free_again_is_no_lease(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a taker's request waits, one collector takes the number it asks for and gives it back, and the next removes it."""
    with Lease(store, "repo", "gc"):
        pass
    others = open_store(store.root)
    later = Lease(others, "repo", "restore")
    write = store.write

    def write_late(key: str, data: bytes, **how: Any) -> ObjectInfo:
        if how.get("create"):
            with Lease(others, "repo", "prune"):
                pass
            later.__enter__()
        return write(key, data, **how)

    monkeypatch.setattr(store, "write", write_late)
    with pytest.raises(UnsafeToSweepError, match="restore on") as caught:
        Lease(store, "repo", "sweep").__enter__()
    assert caught.value.kind == "lease-held"
    later.assert_held()
    assert len(list(others.keys(LEASES))) == 1
    later.__exit__()


def test_a_lease_that_could_not_be_taken_to_the_end_is_given_back(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that fails right after the lease was made must not keep out the next run of a process that lives on."""

    write, keys = store.write, store.keys
    failures: list[StorageError] = []

    def write_before_a_failure(key: str, data: bytes, **how: Any) -> ObjectInfo:
        if how.get("create"):
            failures.append(StorageError("listing failed"))
        return write(key, data, **how)

    def failing_once(prefix: str = "") -> Iterator[str]:
        if failures:
            raise failures.pop()
        return keys(prefix)

    monkeypatch.setattr(store, "write", write_before_a_failure)
    monkeypatch.setattr(store, "keys", failing_once)
    with pytest.raises(StorageError, match="listing failed"):
        Lease(store, "repo", "gc").__enter__()
    monkeypatch.undo()
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_a_lease_whose_answer_got_lost_is_given_back(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store made the file and nobody heard of it: a lease that nobody holds must not keep out the next run."""
    write = store.write

    def write_without_an_answer(key: str, data: bytes, **how: Any) -> ObjectInfo:
        info = write(key, data, **how)
        if how.get("create") and key.startswith(LEASES):
            raise StorageError("the answer got lost")
        return info

    monkeypatch.setattr(store, "write", write_without_an_answer)
    with pytest.raises(StorageError, match="the answer got lost"):
        Lease(store, "repo", "gc").__enter__()
    monkeypatch.undo()
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_a_file_of_somebody_else_beside_the_leases_is_none(store: ObjectStore) -> None:
    """Tools leave notes and markers in folders; they keep no run out, and end none."""
    store.write(f"{LEASES}note.json", b"{}")
    with Lease(store, "repo", "gc") as taken:
        taken.assert_held()


def test_unreadable_lease_counts_as_held(store: ObjectStore) -> None:
    """Doubt about the lease keeps the data."""
    store.write(f"{LEASES}000000000001.json", b"\x00")
    with pytest.raises(UnsafeToSweepError, match="unreadable"):
        Lease(store, "repo", "gc").__enter__()


def test_no_lease_still_reads_the_clock_of_the_store(store: ObjectStore) -> None:
    """Without a lease, ages are told by the store's clock all the same."""
    with NoLease(store, "repo", "gc") as none:
        assert none.store_time is not None
        none.assert_held()
    assert not any(batch.num_rows for batch in store.list(LEASES))


def test_of_two_that_find_no_lease_at_once_one_gets_it(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one takes it between the look and the write."""
    first = Lease(store, "repo", "gc")
    look = Lease._highest

    def overtaken(lease: Lease) -> Any:
        found = look(lease)
        monkeypatch.setattr(Lease, "_highest", look)
        first.__enter__()
        return found

    monkeypatch.setattr(Lease, "_highest", overtaken)
    with pytest.raises(UnsafeToSweepError, match="at this moment"):
        Lease(store, "repo", "sweep").__enter__()
    first.assert_held()


def test_a_lease_that_is_renewed_while_it_is_taken_over_stays(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner was only slow, and may delete until the end of what it has renewed."""
    with Lease(store, "repo", "gc") as first:

        def is_stale(*_: object) -> bool:
            first.renew()
            return True

        monkeypatch.setattr(Lease, "_is_stale", is_stale)
        with pytest.raises(UnsafeToSweepError):
            Lease(store, "repo", "sweep").__enter__()
        first.assert_held()
