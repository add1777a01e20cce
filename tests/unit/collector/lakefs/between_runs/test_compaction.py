"""Deletions written together: what is gone, and what came back, stays known."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakesweep.collector.judge.references import GONE
from lakesweep.collector.lakefs.between_runs import compaction
from lakesweep.collector.lakefs.between_runs.compaction import compact_deletions
from lakesweep.collector.lakefs.between_runs.saved import event_files
from lakesweep.collector.lakefs.paths import events_folder
from lakesweep.collector.parts import PartWriter, read_addresses
from lakesweep.collector.run_files import RunId
from lakesweep.domain.location import Location
from lakesweep.storage import ObjectStore, open_store

AT = datetime(2026, 5, 1, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("address", pa.string())])


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr(compaction, "MOST_SMALL_FILES", 1)
    return open_store(Location.parse(f"mem://compaction-{uuid.uuid4().hex}/ns"))


def tell(store: ObjectStore, order: int, kind: str, addresses: str, run: str = "run") -> None:
    writer = PartWriter(store, events_folder(order, kind, run), "part", SCHEMA)
    writer.add(pa.RecordBatch.from_arrays([pa.array(list(addresses))], schema=SCHEMA))
    writer.close()


def last_events(store: ObjectStore) -> dict[str, str]:
    """What happened last to each address, by all files; of two at one time, the restoration."""
    last: dict[str, tuple[int, int]] = {}
    for event in event_files(store):
        for address in _addresses(store, event.key):
            last[address] = max(last.get(address, (0, 0)), (event.order, event.kind))
    return {a: "gone" if kind == GONE else "restored" for a, (_, kind) in sorted(last.items())}


def _addresses(store: ObjectStore, key: str) -> Iterable[str]:
    return [a for batch in read_addresses(store.read(key), key) for a in batch.to_pylist()]


def test_the_last_event_of_every_address_stays_the_same(store: ObjectStore) -> None:
    """Also where a restoration lies between deletions, or at the same time as one."""
    tell(store, 1, "gone", "abcd")
    tell(store, 2, "restored", "ac")
    tell(store, 3, "gone", "ce")
    tell(store, 4, "gone", "f")
    tell(store, 4, "restored", "f")
    tell(store, 5, "gone", "g")
    before = last_events(store)
    assert before == dict.fromkeys("bcdeg", "gone") | dict.fromkeys("af", "restored")
    assert compact_deletions(store, set(), AT) == 4
    assert last_events(store) == before
    assert len([event for event in event_files(store) if event.kind == GONE]) == 1
    tell(store, 6, "restored", "b")
    assert last_events(store)["b"] == "restored"


def test_deletions_of_a_run_that_goes_on_stay_its_own(store: ObjectStore) -> None:
    """A resumed sweep tells by its own files what it has done."""
    for number, run in enumerate(["done", "going-on", "done"], start=1):
        tell(store, number, "gone", str(number), run)
    assert compact_deletions(store, {"going-on"}, AT) == 2
    [own] = event_files(store, RunId("going-on"))
    assert _addresses(store, own.key) == ["2"]
    assert last_events(store) == dict.fromkeys("123", "gone")


def test_few_or_large_files_are_left_alone(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing them again would cost more than it saves."""
    tell(store, 1, "gone", "a")
    assert compact_deletions(store, set(), AT) == 0
    tell(store, 2, "gone", "b")
    monkeypatch.setattr(compaction, "_SMALL_BYTES", 10)
    assert compact_deletions(store, set(), AT) == 0
