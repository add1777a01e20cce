"""A chunk is deleted only while the store's clock allows it, whatever the executor's own clock says."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.ledger import deadline as deadline_module
from lakesweep.collector.ledger.deadline import Deadline, Moment, write_and_time
from lakesweep.collector.ledger.deleting import (
    CLOCK_OFF,
    DELETED,
    NOT_TRIED,
    THROTTLED,
    Chunk,
    LedgerFolders,
    delete_chunk,
)
from lakesweep.collector.parts import PartWriter
from lakesweep.domain.location import Location
from lakesweep.errors import ThrottledError
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.memory import MemoryBackend, MemoryContainer
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TOLERANCE = 10 * MINUTE
FOLDERS = LedgerFolders("ledger/", "deleted/")
KEYS_PER_REQUEST = 2


class Clocks:
    """The store's clock, and the executor's two, which move together unless they are set apart."""

    def __init__(self) -> None:
        self.store = NOW
        self.executor = Moment(NOW, 100.0)

    def pass_by(self, time: timedelta) -> None:
        self.store += time
        self.executor = Moment(
            self.executor.wall + time, self.executor.counted + time.total_seconds()
        )


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(deadline_module, "this_moment", lambda: clocks.executor)
    return clocks


class SlowBackend(MemoryBackend):
    """Calls `meanwhile` before each delete."""

    delete_batch_size = KEYS_PER_REQUEST

    def __init__(self, clocks: Clocks) -> None:
        super().__init__(MemoryContainer(lambda: clocks.store), "")
        self.meanwhile: Callable[[], None] = lambda: None

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        self.meanwhile()
        return super().delete(keys, terms)


def store_with_chunk(clocks: Clocks, objects: int = 5) -> tuple[ObjectStore, SlowBackend, Chunk]:
    """A store with objects, all named by one chunk that is allowed for ten minutes from now."""
    backend = SlowBackend(clocks)
    options = StorageOptions(max_requests_in_flight=1, first_pause_seconds=0)
    root = Location.parse(f"mem://{uuid.uuid4().hex}")
    store = ObjectStore(root, backend, options, CongestionControl(1))
    addresses = [f"data/gaaaaaaaaaaaaaaaaaa0/c{n:018d}0" for n in range(objects)]
    rows = [{"address": store.write(a, b"x").key, "size_bytes": 1} for a in addresses]
    writer = PartWriter(store, "marked/", "part", MARK_SCHEMA)
    writer.add(pa.RecordBatch.from_pylist(rows, schema=MARK_SCHEMA))
    (part,) = writer.close()
    return store, backend, Chunk(part.key, 0, objects, NOW + 10 * MINUTE, clock_skew=TOLERANCE)


def outcomes(store: ObjectStore, chunk: Chunk) -> dict[str, int]:
    rows = delete_chunk(store, FOLDERS, ObjectDeletion(root_names=False), chunk).to_pylist()
    return {row["outcome"]: row["objects"] for row in rows}


def left(store: ObjectStore) -> int:
    return len(list(store.keys("data/")))


def test_chunk_in_time_is_deleted(clocks: Clocks) -> None:
    """The whole road once, without trouble."""
    store, _, chunk = store_with_chunk(clocks)
    assert outcomes(store, chunk) == {DELETED: 5}
    assert left(store) == 0


def test_batch_after_the_time_is_not_sent(clocks: Clocks) -> None:
    """A request that takes a quarter of an hour is the last one of its chunk."""
    store, backend, chunk = store_with_chunk(clocks)
    backend.meanwhile = lambda: clocks.pass_by(15 * MINUTE)
    assert outcomes(store, chunk) == {DELETED: KEYS_PER_REQUEST, NOT_TRIED: 3}
    assert left(store) == 3


def test_throttled_batch_does_not_outlast_the_authority(clocks: Clocks) -> None:
    """A store that says "slow down" is not asked again when the time is over."""
    store, backend, chunk = store_with_chunk(clocks, objects=KEYS_PER_REQUEST)
    tries: list[int] = []

    def throttle() -> None:
        tries.append(1)
        clocks.pass_by(6 * MINUTE)
        raise ThrottledError("slow down")

    backend.meanwhile = throttle
    assert outcomes(store, chunk) == {THROTTLED: KEYS_PER_REQUEST}
    assert len(tries) == 2
    assert left(store) == KEYS_PER_REQUEST


@pytest.mark.parametrize("behind", [timedelta(hours=3), -timedelta(hours=3)])
def test_executor_with_a_wrong_clock_deletes_nothing(clocks: Clocks, behind: timedelta) -> None:
    """Its chunk is not tried, and the reason names both clocks."""
    store, _, chunk = store_with_chunk(clocks)
    clocks.executor = replace(clocks.executor, wall=NOW - behind)
    (row,) = delete_chunk(store, FOLDERS, ObjectDeletion(root_names=False), chunk).to_pylist()
    assert (row["outcome"], row["objects"]) == (CLOCK_OFF, 5)
    assert "2026-01-01T00:00:00Z" in row["example"]
    assert left(store) == 5


def test_tolerated_difference_prolongs_nothing(clocks: Clocks) -> None:
    """An executor nine minutes behind the store ends when the store's clock says so."""
    store, _, chunk = store_with_chunk(clocks)
    clocks.pass_by(10 * MINUTE)
    clocks.executor = replace(clocks.executor, wall=clocks.store - 9 * MINUTE)
    assert outcomes(store, chunk) == {NOT_TRIED: 5}


def test_clock_that_is_set_back_or_stands_still_prolongs_nothing() -> None:
    """Of the clock that is set and the one that counts, the one that went further is believed."""
    begun = Moment(NOW, 100.0)
    assert Moment(NOW - MINUTE, 130.0).seconds_since(begun) == 30
    assert Moment(NOW + MINUTE, 130.0).seconds_since(begun) == 60


def test_time_of_a_slow_write_counts(clocks: Clocks) -> None:
    """The store may have read its clock when the write began, and whole seconds are told too early."""
    store, _, _ = store_with_chunk(clocks)
    deadline, _ = write_and_time(store, "intent", b"", NOW + 10 * MINUTE, TOLERANCE)
    assert isinstance(deadline, Deadline)
    clocks.pass_by(4 * MINUTE)
    assert deadline.seconds_left() == 6 * 60 - 1
