"""The fault-injecting store: faults come as planned, from the seed, and nothing else changes."""

from __future__ import annotations

import uuid

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage import DeleteStatus, ObjectStore, StorageOptions, open_store
from lakesweep_testing.faults import FaultPlan, FaultyStore, SimulatedCrash

QUICK = StorageOptions(first_pause_seconds=0.0, throttle_patience_seconds=0.05, transient_retries=2)


@pytest.fixture
def store() -> ObjectStore:
    store = open_store(Location.parse(f"mem://{uuid.uuid4()}/r"), StorageOptions())
    for number in range(200):
        store.write(f"data/{number:03}", b"x" * number)
    return store


def listed(store: ObjectStore) -> list[str]:
    return [key for batch in store.list() for key in batch.column("key").to_pylist()]


def test_without_faults_it_is_the_store(store: ObjectStore) -> None:
    """An empty plan changes nothing."""
    faulty = FaultyStore(store, 1, FaultPlan())
    assert listed(faulty) == listed(store)
    assert faulty.read("data/007") == b"x" * 7
    assert faulty.delete_many(["data/007"])[0].status is DeleteStatus.GONE


def test_some_transient_errors_are_survived(store: ObjectStore) -> None:
    """Retries carry reads, listings and deletes over a third of failing calls."""
    plan = FaultPlan(errors=0.3, throttling=0.2, broken_listings=0.5)
    faulty = FaultyStore(
        store, 7, plan, options=StorageOptions(first_pause_seconds=0.0, transient_retries=50)
    )
    keys = listed(store)
    assert listed(faulty) == keys
    assert [len(data) for _, data in faulty.read_many(keys)] == list(range(200))
    assert {o.status for o in faulty.delete_many(keys)} == {DeleteStatus.GONE}


def test_permanent_errors_come_through(store: ObjectStore) -> None:
    """What never works ends in an error of its own kind."""
    for plan, error in [
        (FaultPlan(errors=1.0), StorageError),
        (FaultPlan(throttling=1.0), ThrottledError),
        (FaultPlan(denials=1.0), StorageDeniedError),
    ]:
        faulty = FaultyStore(store, 1, plan, options=QUICK)
        with pytest.raises(error):
            faulty.read("data/001")
        with pytest.raises(error):
            listed(faulty)


def test_a_lost_answer_to_a_create_is_not_repeated(store: ObjectStore) -> None:
    """The caller learns that it does not know, and not that someone else was first."""
    faulty = FaultyStore(store, 1, FaultPlan(lost_answers=1.0), options=QUICK)
    with pytest.raises(StorageError) as caught:
        faulty.write("lease", b"mine", create=True)
    assert caught.value.kind == "storage-unreachable"
    assert store.read("lease") == b"mine"


def test_bulk_deletes_fail_in_part(store: ObjectStore) -> None:
    """Some keys fail by themselves, are told, and are still there."""
    faulty = FaultyStore(store, 3, FaultPlan(failed_deletes=0.3))
    keys = listed(store)
    outcomes = faulty.delete_many(keys)
    failed = [outcome.key for outcome in outcomes if outcome.status is DeleteStatus.FAILED]
    assert 20 < len(failed) < 120
    assert listed(store) == failed


def test_reads_are_cut_without_a_word(store: ObjectStore) -> None:
    """Truncation raises nothing: noticing is the reader's part."""
    faulty = FaultyStore(store, 1, FaultPlan(truncation=1.0))
    assert len(faulty.read("data/150")) < 150


def test_a_crash_ends_everything_after_so_many_operations(store: ObjectStore) -> None:
    """After the crash no call does anything any more."""
    faulty = FaultyStore(store, 1, FaultPlan(crash_after_operations=3))
    for number in range(3):
        faulty.read(f"data/{number:03}")
    for _ in range(3):
        with pytest.raises(SimulatedCrash):
            faulty.delete_many(["data/001", "data/002"])
    with pytest.raises(SimulatedCrash):
        listed(faulty)


def test_one_seed_gives_one_story(store: ObjectStore) -> None:
    """The same seed fails the same keys, another seed others."""

    def failures(seed: int) -> list[str]:
        faulty = FaultyStore(
            store, seed, FaultPlan(errors=0.5), options=StorageOptions(transient_retries=0)
        )
        failed = []
        for key in listed(store):
            try:
                faulty.read(key)
            except StorageError:
                failed.append(key)
        return failed

    assert failures(1) == failures(1)
    assert failures(1) != failures(2)
