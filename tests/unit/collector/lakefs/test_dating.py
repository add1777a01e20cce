"""Ages that are looked up in the store: the cut-off is exclusive, and no age counts as young."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.dating import date_parts
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep.storage import StorageOptions
from lakesweep.storage.memory import memory_container

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)
ADDRESS = "data/gcoca17haabs73f2gtq0/c0000000000000000010"


@pytest.mark.parametrize("reason", ["expired", "unreferenced"])
@pytest.mark.parametrize(
    ("written_at", "is_young"),
    [
        (CUTOFF - timedelta(microseconds=1), False),
        (CUTOFF, True),
        (CUTOFF + timedelta(microseconds=1), True),
        (None, True),
    ],
)
def test_only_what_was_written_before_the_cutoff_is_old(
    written_at: datetime | None, is_young: bool, reason: str
) -> None:
    """What was written at the cut-off, after it, or nobody knows when, stays."""
    bucket = f"dating-{uuid.uuid4().hex}"
    container = memory_container(bucket)
    stored = container.store(f"ns/{ADDRESS}", b"12345")
    container.objects[f"ns/{ADDRESS}"] = replace(stored, last_modified=written_at)  # type: ignore[arg-type]
    target = Target(Location.parse(f"mem://{bucket}/ns"), StorageOptions())
    row = {"address": ADDRESS, "size_bytes": 5, "last_modified": None, "reason": reason}
    target.open().write("part", write_mark(pa.Table.from_pylist([row], schema=MARK_SCHEMA)))
    (batch,) = date_parts(target, "verdicts/", CUTOFF, iter(["part"]))
    (verdict,) = [row["outcome"] for row in batch.to_pylist() if row["objects"]]
    old = dating.EXPIRED if reason == "expired" else dating.OLD
    assert verdict == (dating.YOUNG if is_young else old)
