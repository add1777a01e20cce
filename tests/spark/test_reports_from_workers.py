"""Tasks in Spark's own workers report to the driver while they work."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.engine.reporting import ReportingEngine
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Scatter
from lakesweep.progress import ProgressBoard, advance
from lakesweep.progress.task_reports import note_retry

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("n", pa.int64())])


def numbers(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        advance(item, 100 * item)
        note_retry(is_throttled=item == 3)
        yield pa.RecordBatch.from_pylist([{"n": item}], schema=SCHEMA)


def test_objects_bytes_and_retries_cross_over_from_other_processes(spark: SparkSession) -> None:
    """The rows are those of the work; retries of workers are counted beside the driver's own."""
    board = ProgressBoard("repo")
    engine = ReportingEngine(SparkEngine(spark), board, lambda: None)
    with board.phase("list", "objects") as phase:
        rows = engine.collect(Scatter([1, 2, 3], numbers, SCHEMA, tasks=3, objects=6))
        seen = phase.snapshot()
    assert sorted(rows.column("n").to_pylist()) == [1, 2, 3]
    assert (seen.items, seen.size_bytes, seen.total) == (6, 600, 6)
    assert (board.retries().retries, board.retries().throttled) == (3, 1)
