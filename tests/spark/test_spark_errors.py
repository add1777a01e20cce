"""Errors that are raised on executors arrive whole, whatever Spark makes of exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.errors import (
    CatalogDeniedError,
    FormatError,
    LakesweepError,
    ObjectNotFoundError,
    StorageError,
    UnsafeToSweepError,
)
from lakesweep.storage.translate import TRANSIENT

pytestmark = pytest.mark.spark

ROW = pa.schema([pa.field("item", pa.int64(), nullable=False)])
MESSAGE = "The range 7 is missing.\n  lakesweep.errors.ConfigError: no words of ours\n\nNothing was deleted."
ERRORS = [
    UnsafeToSweepError(MESSAGE, kind="range-missing"),
    FormatError(MESSAGE),
    ObjectNotFoundError(MESSAGE, kind="container-not-found"),
    CatalogDeniedError(MESSAGE),
]


@pytest.fixture(params=["true", "false"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Spark with its simplified tracebacks on, and off."""
    name = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
    spark.conf.set(name, request.param)
    yield spark
    spark.conf.unset(name)


def _rows(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        yield pa.RecordBatch.from_pydict({"item": [item]}, schema=ROW)


def _rows_then(error: LakesweepError, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _rows(items)
    raise error


def _cells(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        row = {"partition": item % 3, "kind": 1, "blob": b"x"}
        yield pa.RecordBatch.from_pylist([row], schema=CELL_SCHEMA)


def _cells_then(error: LakesweepError, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _cells(items)
    raise error


def _fail_first(
    marker: str, error: LakesweepError, items: Iterator[int]
) -> Iterator[pa.RecordBatch]:
    with Path(marker).open("a") as tries:
        tries.write("x")
    yield from _rows(items)
    if Path(marker).read_text() == "x":
        raise error


def _count(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table({"item": [left.num_rows + right.num_rows]}, schema=ROW)


def _refuse(error: LakesweepError, left: pa.Table, right: pa.Table) -> pa.Table:
    raise error


def _note(marker: str, left: pa.Table, right: pa.Table) -> pa.Table:
    Path(marker).touch()
    return _count(left, right)


def _assert_whole(caught: LakesweepError, error: LakesweepError) -> None:
    assert (type(caught), caught.kind, caught.message) == (type(error), error.kind, error.message)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind)
def test_an_error_of_a_work_function_arrives_whole(
    session: SparkSession, error: LakesweepError
) -> None:
    """Class, kind and every line of the message, also when rows came before it."""
    scatter = Scatter([1, 2, 3], partial(_rows_then, error), ROW, 2)
    with pytest.raises(LakesweepError) as caught:
        SparkEngine(session).collect(scatter)
    _assert_whole(caught.value, error)


def test_an_error_of_a_meeting_arrives_whole(session: SparkSession) -> None:
    """A meeting that finds damage says so as a work function does."""
    cells = Scatter([1, 2, 3], _cells, CELL_SCHEMA, 2)
    with pytest.raises(LakesweepError) as caught:
        SparkEngine(session).meet(cells, cells, partial(_refuse, ERRORS[0]), ROW, 3)
    _assert_whole(caught.value, ERRORS[0])


def test_no_meeting_is_held_when_a_side_came_with_an_error(
    session: SparkSession, tmp_path: Path
) -> None:
    """With half of what is live at hand, every verdict would be a guess: the error goes to each partition."""
    cells = Scatter([0, 1, 2], _cells, CELL_SCHEMA, 2)
    broken = Scatter([0], partial(_cells_then, ERRORS[0]), CELL_SCHEMA, 1)
    marker = tmp_path / "met"
    for left, right in ((cells, broken), (broken, cells)):
        with pytest.raises(LakesweepError) as caught:
            SparkEngine(session).meet(left, right, partial(_note, str(marker)), ROW, 3)
        _assert_whole(caught.value, ERRORS[0])
    assert not marker.exists()


def test_a_store_out_of_reach_is_tried_once_more_elsewhere(
    session: SparkSession, tmp_path: Path
) -> None:
    """The next try of the task may run where the store can be reached; its rows count once."""
    marker = str(tmp_path / "tries")
    error = StorageError("reading part-1 failed: no route", kind=TRANSIENT)
    work = partial(_fail_first, marker, error)
    rows = SparkEngine(session).collect(Scatter([1, 2], work, ROW, 1))
    assert rows.column("item").to_pylist() == [1, 2]
    assert Path(marker).read_text() == "xx"


def test_a_store_that_stays_out_of_reach_arrives_whole(session: SparkSession) -> None:
    """After the second try it is told as it is."""
    error = StorageError("reading part-1 failed: no route\nTry later.", kind=TRANSIENT)
    with pytest.raises(StorageError) as caught:
        SparkEngine(session).collect(Scatter([1], partial(_rows_then, error), ROW, 1))
    _assert_whole(caught.value, error)


def test_doubt_is_not_tried_again(session: SparkSession, tmp_path: Path) -> None:
    """A damaged file is damaged on every machine."""
    marker = str(tmp_path / "tries")
    work = partial(_fail_first, marker, ERRORS[0])
    with pytest.raises(UnsafeToSweepError):
        SparkEngine(session).collect(Scatter([1], work, ROW, 1))
    assert Path(marker).read_text() == "x"
