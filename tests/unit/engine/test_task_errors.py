"""Errors of tasks as data: what is sent, what is raised for another try, and what comes out at the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesweep.engine.task_errors import (
    cells_or_errors,
    met_or_error,
    rows_of,
    rows_or_error,
    with_error_column,
)
from lakesweep.engine.tasks import CELL_SCHEMA
from lakesweep.errors import LakesweepError, StorageError, ThrottledError, UnsafeToSweepError
from lakesweep.storage.translate import TRANSIENT

ROW = pa.schema([pa.field("item", pa.int64(), nullable=False)])
DOUBT = UnsafeToSweepError("one\ntwo", kind="range-missing")
PASSING = [ThrottledError("slow down"), StorageError("no route", kind=TRANSIENT)]


def _rows_then(error: LakesweepError) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"item": [1]}, schema=ROW)
    raise error


def _cells_then(error: LakesweepError) -> Iterator[pa.RecordBatch]:
    row = {"partition": 0, "kind": 1, "blob": b"x"}
    yield pa.RecordBatch.from_pylist([row], schema=CELL_SCHEMA)
    raise error


def _met(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table({"item": [left.num_rows + right.num_rows]}, schema=ROW)


@pytest.mark.parametrize("error", [DOUBT, *PASSING])
def test_the_driver_raises_what_a_task_sent(error: LakesweepError) -> None:
    """The rows before it are worth nothing."""
    sent = list(rows_or_error(_rows_then(error), ROW, is_tried_again=False))
    with pytest.raises(type(error)) as caught:
        rows_of(pa.Table.from_batches(sent), ROW)
    assert (caught.value.kind, caught.value.message) == (error.kind, error.message)


def test_rows_without_an_error_come_out_as_they_went_in() -> None:
    """The column for errors is gone, and the schema is the work function's own."""
    rows = iter([pa.RecordBatch.from_pydict({"item": [1, 2]}, schema=ROW)])
    sent = list(rows_or_error(rows, ROW, is_tried_again=False))
    assert sent[0].schema == with_error_column(ROW)
    assert rows_of(pa.Table.from_batches(sent), ROW) == pa.table({"item": [1, 2]}, schema=ROW)


@pytest.mark.parametrize("error", PASSING)
def test_what_may_pass_is_raised_while_there_is_another_try(error: LakesweepError) -> None:
    """Spark then gives the task to somebody else; on all three roads."""
    with pytest.raises(StorageError):
        list(rows_or_error(_rows_then(error), ROW, is_tried_again=True))
    with pytest.raises(StorageError):
        list(cells_or_errors(_cells_then(error), 2, is_tried_again=True))

    def refuse(left: pa.Table, right: pa.Table) -> pa.Table:
        raise error

    empty = CELL_SCHEMA.empty_table()
    with pytest.raises(StorageError):
        met_or_error(refuse, empty, empty, ROW, is_tried_again=True)


def test_doubt_is_sent_at_once() -> None:
    """Another try would find the same."""
    sent = list(rows_or_error(_rows_then(DOUBT), ROW, is_tried_again=True))
    assert sent[-1].column("error").null_count == 0


def test_an_error_among_the_cells_reaches_every_partition() -> None:
    """None of them is judged by half of what there is, whichever side broke."""
    cells = pa.Table.from_batches(cells_or_errors(_cells_then(DOUBT), 3, is_tried_again=True))
    for partition in range(3):
        mine = cells.filter(pa.compute.equal(cells.column("partition"), partition))
        for sides in ((mine, CELL_SCHEMA.empty_table()), (CELL_SCHEMA.empty_table(), mine)):
            met = met_or_error(_met, *sides, ROW, is_tried_again=True)
            with pytest.raises(UnsafeToSweepError, match=r"one\ntwo"):
                rows_of(met, ROW)
