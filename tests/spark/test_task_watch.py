"""A terminal is told how far Spark is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Scatter

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("n", pa.int64())])


def slowly(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        time.sleep(1.2)
        yield pa.RecordBatch.from_pylist([{"n": item}], schema=SCHEMA)


def test_tasks_are_counted_while_they_run(spark: SparkSession) -> None:
    """Never more done than there are; the work itself is not changed by being watched."""
    told: list[tuple[int, int]] = []
    engine = SparkEngine(spark, on_tasks=lambda done, total: told.append((done, total)))
    rows = engine.collect(Scatter([1, 2], slowly, SCHEMA, tasks=2))
    assert sorted(rows.column("n").to_pylist()) == [1, 2]
    assert any(total > 0 for _, total in told)
    assert all(done <= total for done, total in told)
