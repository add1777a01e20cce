"""The guards of an expiry that stand alone: whatever the mark or the plan says, these keep a file that is not garbage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.parts import read_part
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter
from lakesweep.storage import open_store
from lakesweep_testing.fake_nessie import table
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene


def test_another_snapshot_of_a_known_metadata_file_is_newly_live(scene: NessieScene) -> None:
    """A content set back to an older snapshot keeps its metadata file: both together say what is live."""
    orders = scene.table("orders")
    first = orders.append("a.parquet")
    second = orders.remove("a.parquet")
    marked = scene.mark("1")
    back = table(second.metadata_location, first.snapshot_id, id=orders.content_id)
    scene.nessie.commit("main", puts={orders.key: back})
    data = {uri for uri in orders.live_files(first) if uri.endswith("a.parquet")}
    assert data

    record = scene.expire(marked, ask_nessie=True)

    assert data <= scene.files()
    assert data <= set(record.revived)


class WatchesDeletions(InProcessEngine):
    """Is told of every chunk before it is deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.tell: Callable[[str, datetime], None] = lambda part, not_after: None

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == DELETED_SCHEMA:
            for chunk in scatter.items:
                self.tell(chunk.part, chunk.not_after)
        return super().collect(scatter)


@pytest.fixture
def engine(scene: NessieScene) -> WatchesDeletions:
    scene.engine = engine = WatchesDeletions()
    return engine


def test_a_file_outside_every_base_location_is_not_deleted_by_any_part(
    scene: NessieScene, engine: WatchesDeletions
) -> None:
    """The last look at each file stands right before its delete, after everything that could still go wrong."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orders.iceberg.write_orphan("x.parquet")
    outside = scene.uri("elsewhere/file.parquet")
    scene.write(outside, b"nobody's")
    store = scene.context().resources.store

    def slip_in(part: str, _: datetime) -> None:
        rows = [
            row for b in read_part(store.read(part), FILE_SCHEMA, part) for row in b.to_pylist()
        ]
        # Size, time and etag are those of the file, so that it is not kept as one that was written anew.
        found = open_store(Location.parse(scene.uri("elsewhere")), scene.storage).stat(
            "file.parquet"
        )
        rows[0] = {
            "uri": outside,
            "size_bytes": found.size,
            "last_modified": found.last_modified,
            "etag": found.etag,
        }
        written = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), written)
        store.write(part, written.getvalue().to_pybytes())

    engine.tell = slip_in
    marked = scene.mark()
    record = scene.expire(marked)
    assert outside in scene.files()
    assert record.objects["deleted"] == 0


def test_time_that_asking_takes_is_time_that_deleting_does_not_have(
    scene: NessieScene, engine: WatchesDeletions
) -> None:
    """What is live was asked from the first request on; from there on the authority counts."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orders.iceberg.write_orphan("x.parquet")
    marked = scene.mark()
    for number in range(5):
        scene.nessie.create_branch(f"new-{number}", hash=scene.nessie.head())
    began = datetime.now(UTC)
    before = len(scene.nessie.requests)
    seen: list[timedelta] = []

    def clock() -> datetime:
        """A minute passes with every request."""
        return began + timedelta(minutes=len(scene.nessie.requests) - before)

    hour = timedelta(hours=1)
    margins = replace(SAFETY_FULL, delete_not_after=hour, lease_life=2 * hour)
    context = replace(scene.context(), clock=clock, margins=margins)
    engine.tell = lambda _, not_after: seen.append(clock() - (not_after - hour))
    with scene.nessie.client() as client:
        expire(context, ExpireRequest(marked.live_set_id), client)
    assert seen
    assert min(seen) >= timedelta(minutes=3), "asking took that long, at least"
