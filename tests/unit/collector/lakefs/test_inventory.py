"""Look-ups of what an inventory calls garbage: every row has its outcome, or the run ends."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.inventory import (
    EXPIRED,
    REWRITTEN,
    UNREFERENCED,
    VANISHED,
    look_up_garbage,
)
from lakesweep.collector.parts import Part, parts_told, written_parts
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import StorageError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import StorageOptions
from lakesweep.storage.memory import MemoryBackend, memory_container
from lakesweep_testing.inprocess import InProcessEngine

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


def lake(engine: InProcessEngine | None = None) -> Resources:
    name = f"looked-up-{uuid.uuid4().hex}"
    memory_container(name).clock = lambda: AT
    target = Target(Location.parse(f"mem://{name}/ns"), StorageOptions(transient_retries=0))
    return Resources(target, engine or InProcessEngine(), Phases("lake"), utc_now)


def garbage_of(resources: Resources, names: list[str], **changes: Any) -> list[Part]:
    """Objects of four bytes, and a part that names them as garbage."""
    rows = [
        {"address": name, "size_bytes": 4, "last_modified": AT, "reason": "unreferenced"} | changes
        for name in names
    ]
    for name in names:
        resources.store.write(name, b"four")
    table = pa.Table.from_pylist(rows, schema=MARK_SCHEMA)
    return parts_told(written_parts(resources.store, "judged/", "garbage", table))


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, UNREFERENCED),
        ({"reason": "expired"}, EXPIRED),
        ({"last_modified": AT + timedelta(seconds=1)}, UNREFERENCED),  # of a finer clock
        ({"last_modified": AT - timedelta(seconds=2)}, REWRITTEN),
        ({"last_modified": AT + timedelta(seconds=2)}, REWRITTEN),
        ({"size_bytes": 5}, REWRITTEN),
        ({"last_modified": None}, REWRITTEN),
    ],
)
def test_only_the_object_that_the_inventory_names_may_go(
    changes: dict[str, Any], outcome: str
) -> None:
    """By its size and its time, to the second."""
    resources = lake()
    found = look_up_garbage(resources, garbage_of(resources, ["data/a"], **changes), "looked/")
    assert found.tally(outcome).objects == 1
    assert sum(part.rows for part in found.garbage) == (outcome in (EXPIRED, UNREFERENCED))


def test_many_are_looked_up_by_pages_and_each_has_its_outcome() -> None:
    """In the order of their names, whatever part they stood in."""
    resources = lake()
    names = [f"data/{number % 3}/{number:05d}" for number in range(3000)]
    parts = garbage_of(resources, names[::2]) + garbage_of(resources, names[1::2])
    for name in names[:100]:
        resources.store.delete_many([name])
    found = look_up_garbage(resources, parts, "looked/")
    assert found.tally(VANISHED) == Tally(100, 400)
    assert found.tally(UNREFERENCED) == Tally(2900, 11600)
    assert found.oldest == AT


class LossyEngine(InProcessEngine):
    """Loses what a task told of one outcome."""

    def collect(self, scatter: Scatter) -> pa.Table:
        rows = super().collect(scatter)
        return rows.slice(1) if "outcome" in rows.schema.names else rows


def test_garbage_that_gets_lost_while_it_is_looked_up_is_noticed() -> None:
    """Rows that went in come out."""
    resources = lake(LossyEngine())
    parts = garbage_of(resources, ["data/a"], reason="expired")
    with pytest.raises(UnsafeToSweepError) as error:
        look_up_garbage(resources, parts, "looked/")
    assert error.value.kind == "not-conserved"


def test_a_store_that_does_not_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is no absence."""
    resources = lake()
    parts = garbage_of(resources, ["data/a"])

    def broken(self: MemoryBackend, key: str) -> object:
        raise StorageError("no answer")

    monkeypatch.setattr(MemoryBackend, "head", broken)
    with pytest.raises(StorageError, match="no answer"):
        look_up_garbage(resources, parts, "looked/")
