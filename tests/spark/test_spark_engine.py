"""The engine on Spark does what the engine in process does, and survives the loss of a worker."""

from __future__ import annotations

import gc
import os
import random
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakesweep.collector.copies import order as ordering
from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.judge.columns import MET_SCHEMA
from lakesweep.collector.judge.meeting import Judged, add_up
from lakesweep.collector.judge.references import EXPIRED, LIVE
from lakesweep.collector.lakefs.candidates import read_candidates
from lakesweep.collector.lakefs.judging import address_judge
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.references import AddressList, read_references
from lakesweep.collector.parts import PartWriter
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import CELL_SCHEMA, Engine, Scatter
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

pytestmark = pytest.mark.spark

ROW = pa.schema([pa.field("item", pa.int64()), pa.field("pid", pa.int64())])
CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)


def _squares(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        yield pa.RecordBatch.from_pydict({"item": [item * item], "pid": [os.getpid()]}, schema=ROW)


def _die_once(marker: str, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        yield pa.RecordBatch.from_pydict({"item": [item], "pid": [os.getpid()]}, schema=ROW)
        if item == 5:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os._exit(9)


def _cells_of_all(partitions: int, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        rows = [{"partition": p, "kind": 1, "blob": bytes([item])} for p in range(partitions)]
        yield pa.RecordBatch.from_pylist(rows, schema=CELL_SCHEMA)


def _task_of_meeting(left: pa.Table, right: pa.Table) -> pa.Table:
    context = TaskContext.get()
    assert context is not None
    [partition] = {*left.column("partition").to_pylist(), *right.column("partition").to_pylist()}
    return pa.Table.from_pylist([{"item": partition, "pid": context.partitionId()}], schema=ROW)


@pytest.mark.parametrize("partitions", [2, 5, 16])
def test_every_meeting_has_a_task_of_its_own(spark: SparkSession, partitions: int) -> None:
    """By Spark's own hash of the partition's number, 0 and 1 of two would share one task, and the other be idle."""
    cells = Scatter([1, 2], partial(_cells_of_all, partitions), CELL_SCHEMA, tasks=2)
    met = SparkEngine(spark).meet(cells, cells, _task_of_meeting, ROW, partitions)
    tasks = dict(zip(met.column("item").to_pylist(), met.column("pid").to_pylist(), strict=True))
    assert tasks == {number: number for number in range(partitions)}


def _what_is_loaded(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    pa.array([[1], None])  # pyarrow looks for pandas now
    names = ["pandas", "numba", "lakesweep.engine.spark"]
    loaded = [sum(name in sys.modules for name in names) for _ in items]
    pids = [os.getpid()] * len(loaded)
    yield pa.RecordBatch.from_pydict({"item": loaded, "pid": pids}, schema=ROW)


def test_workers_find_loaded_what_they_need_and_never_load_pandas(spark: SparkSession) -> None:
    """Workers of this machine are forked from a process that has loaded it."""
    rows = SparkEngine(spark).collect(Scatter([1], _what_is_loaded, ROW, tasks=1)).to_pylist()
    assert [row["item"] for row in rows] == [2]


def _load_and_count(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    import sqlalchemy  # noqa: F401 (nothing that workers have loaded, and large)

    for _ in items:
        batch = {"item": [len(gc.get_objects())], "pid": [os.getpid()]}
        yield pa.RecordBatch.from_pydict(batch, schema=ROW)


def test_what_a_task_loaded_is_not_walked_through_after_the_next(spark: SparkSession) -> None:
    """Spark collects garbage after every task; all that numba and pyarrow consist of would be walked each time."""
    engine = SparkEngine(spark)
    counts: dict[int, list[int]] = {}
    while not any(len(seen) == 2 for seen in counts.values()):
        [row] = engine.collect(Scatter([1], _load_and_count, ROW, tasks=1)).to_pylist()
        counts.setdefault(row["pid"], []).append(row["item"])
    [(first, second)] = [seen for seen in counts.values() if len(seen) == 2]
    assert first > 20_000
    assert second < first / 4


def test_scatter_runs_every_item_once(spark: SparkSession) -> None:
    """Items are dealt out over tasks, and each comes back."""
    engine = SparkEngine(spark)
    rows = engine.collect(Scatter(list(range(20)), _squares, ROW, 4))
    assert sorted(rows.column("item").to_pylist()) == [i * i for i in range(20)]
    assert engine.slots == 2


def _task_of_item(items: Iterator[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    numbers = [number for number, _ in items]
    tasks = [context.partitionId()] * len(numbers)
    yield pa.RecordBatch.from_pydict({"item": numbers, "pid": tasks}, schema=ROW)


@pytest.mark.parametrize("padding", [0, 40_000])
def test_every_task_gets_its_own_items_however_large_they_are(
    spark: SparkSession, padding: int
) -> None:
    """Few bytes go to every task, which picks its own; many are dealt out by Spark. A task may have none."""
    items = [(number, bytes(padding)) for number in range(20)]
    task_of = [(number * 7) % 5 for number in range(20)]
    rows = SparkEngine(spark).collect(Scatter(items, _task_of_item, ROW, 6, task_of))
    found = dict(zip(rows.column("item").to_pylist(), rows.column("pid").to_pylist(), strict=True))
    assert rows.num_rows == 20
    assert found == dict(enumerate(task_of))


def test_scatter_of_nothing_is_an_empty_table(spark: SparkSession) -> None:
    """No items, no job, and the schema all the same."""
    assert SparkEngine(spark).collect(Scatter([], _squares, ROW, 1)).schema == ROW


def test_worker_killed_half_way_changes_no_result(spark: SparkSession, tmp_path: Path) -> None:
    """A task that dies after it gave some rows is run again, and its rows count once."""
    marker = tmp_path / "died"
    rows = SparkEngine(spark).collect(
        Scatter(list(range(12)), partial(_die_once, str(marker)), ROW, 3)
    )
    assert marker.exists()
    assert sorted(rows.column("item").to_pylist()) == list(range(12))


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Target, list[str], list[str], list[str]]:
    """3,000 listed objects: 1,500 live, 500 expired, 1,000 unreferenced."""
    names = [f"data/gcoca17haabs73f2gtq0/c{n:018d}0" for n in range(3000)]
    random.Random(7).shuffle(names)
    target = Target(Location.parse(f"file://{tmp_path}/ns-{uuid.uuid4().hex}"), StorageOptions())
    return target, names, names[:1500], names[1500:2000]


def _judged(
    engine: Engine, target: Target, names: list[str], live: list[str], expired: list[str]
) -> Judged:
    writer = PartWriter(target.open(), "listing/", "l", CANDIDATE_SCHEMA)
    old = CUTOFF - timedelta(days=1)
    writer.add(
        pa.RecordBatch.from_pylist(
            [{"address": a, "size_bytes": 3, "last_modified": old} for a in names],
            schema=CANDIDATE_SCHEMA,
        )
    )
    references = [
        AddressList("live", tuple(live), LIVE),
        AddressList("expired", tuple(expired), EXPIRED),
    ]
    candidates = listed_parts(writer.close())
    judge = address_judge(target, "verdicts/", CUTOFF)
    met = engine.meet(
        Scatter(references, partial(read_references, target, 5), CELL_SCHEMA, 2),
        Scatter(candidates, partial(read_candidates, target, 5), CELL_SCHEMA, 2),
        judge,
        MET_SCHEMA,
        5,
    )
    return add_up(met, references, candidates, judge)


def test_meeting_agrees_with_a_plain_anti_join(
    spark: SparkSession, lake: tuple[Target, list[str], list[str], list[str]]
) -> None:
    """The fast road gives what ten lines of DataFrame give, and what the engine in process gives."""
    target, names, live, expired = lake
    judged = _judged(SparkEngine(spark), target, names, live, expired)
    found = {
        row["address"]
        for part in judged.garbage
        for row in read_mark(target.open().read(part.key)).to_pylist()
    }
    listed = spark.createDataFrame(pa.table({"address": names}))
    references = spark.createDataFrame(pa.table({"address": live}))
    plain = listed.join(references, on="address", how="left_anti").select(F.col("address"))
    assert found == {row["address"] for row in plain.collect()}
    assert judged.tallies == _judged(InProcessEngine(), target, names, live, expired).tallies


def test_the_rows_of_many_parts_are_put_in_order_by_executors(
    spark: SparkSession, lake: tuple[Target, list[str], list[str], list[str]]
) -> None:
    """A mark too large for the driver: its partitions follow each other, and hold every row once."""
    target, names, _, _ = lake
    parts = []
    for number in range(5):
        writer = PartWriter(target.open(), "mark/", "part", MARK_SCHEMA)
        rows = [{"address": name, "size_bytes": 3} for name in names[number::5]]
        writer.add(pa.RecordBatch.from_pylist(rows, schema=MARK_SCHEMA))
        parts += writer.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_ROWS_PER_PARTITION", 1000)
        where, ordered = ordering.in_order(SparkEngine(spark), target, target, "work/", parts)
    tables = [read_mark(where.open().read(part.key)) for part in ordered]
    found = [address for table in tables for address in table.column("address").to_pylist()]
    assert found == sorted(names)
    assert len(ordered) == 3
    assert min(part.rows for part in ordered) > 900
