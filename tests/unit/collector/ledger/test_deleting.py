"""What a chunk deletes, and what it leaves alone."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.collector.ledger.deadline import Deadline, this_moment
from lakesweep.collector.ledger.deleting import KeyDeletion
from lakesweep.domain.location import Location
from lakesweep.storage import open_store

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class AnyKey(KeyDeletion):
    """No name is protected."""

    def why_not(self, name: str) -> str:
        return ""


def test_what_is_too_late_is_not_deleted() -> None:
    """The time may run out after the chunk has begun: what allowed the delete is too old by then."""
    store = open_store(Location.parse(f"mem://deleting-{uuid.uuid4().hex[:8]}/ns"))
    keys = ["data/1", "data/2"]
    for key in keys:
        store.write(key, b"x")
    rows = pa.table({"address": keys})
    late = Deadline(NOW - timedelta(minutes=1), NOW, this_moment())
    assert len(AnyKey().delete(store, rows, "chunk", late)) == len(keys)
    assert sorted(store.keys("data/")) == keys
    in_time = Deadline(NOW + timedelta(hours=1), NOW, this_moment())
    AnyKey().delete(store, rows, "chunk", in_time)
    assert not list(store.keys("data/"))
