"""Errors of tasks travel as data: in a column beside a task's rows, or in cells of a kind of their own.

Spark turns an exception into text, whose shape depends on its settings: class, `kind` and all but the first line of the
message may be lost on the way.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.engine.tasks import CELL_SCHEMA, Meet
from lakesweep.errors import LakesweepError, StorageError, ThrottledError
from lakesweep.storage.retry import is_transient

_FIELD = pa.field("error", pa.binary())
# No work function packs cells of this kind.
_ERROR_KIND = -1


def may_pass(error: LakesweepError) -> bool:
    """Whether another try of the task, perhaps on another machine, may go through: the store was out of reach."""
    return isinstance(error, ThrottledError) or (
        isinstance(error, StorageError) and is_transient(error)
    )


def with_error_column(schema: pa.Schema) -> pa.Schema:
    """The schema of a task's output: its rows, and beside them the error that ended it."""
    return schema.append(_FIELD)


def rows_or_error(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, is_tried_again: bool
) -> Iterator[pa.RecordBatch]:
    """Batches with an error column; an error of ours is the last row. With another try to come, some are raised."""
    try:
        for batch in batches:
            yield batch.append_column(_FIELD, pa.nulls(batch.num_rows, _FIELD.type))
    except LakesweepError as error:
        if is_tried_again and may_pass(error):
            raise
        yield _error_row(pickle.dumps(error), schema)


def cells_or_errors(
    batches: Iterator[pa.RecordBatch], partitions: int, *, is_tried_again: bool
) -> Iterator[pa.RecordBatch]:
    """Pass on a task's cells. An error of ours goes to every partition, so that none is judged by half of its cells."""
    try:
        yield from batches
    except LakesweepError as error:
        if is_tried_again and may_pass(error):
            raise
        cell = {"kind": _ERROR_KIND, "blob": pickle.dumps(error)}
        rows = [{"partition": partition, **cell} for partition in range(partitions)]
        yield pa.RecordBatch.from_pylist(rows, schema=CELL_SCHEMA)


def met_or_error(
    meet: Meet, left: pa.Table, right: pa.Table, schema: pa.Schema, *, is_tried_again: bool
) -> pa.Table:
    """The rows of a meeting, with an error column. A partition that came with an error is not judged at all."""
    for side in (left, right):
        errors = side.filter(pc.equal(side.column("kind"), _ERROR_KIND)).column("blob")
        if len(errors):
            return pa.Table.from_batches([_error_row(errors[0].as_py(), schema)])
    try:
        met = meet(left, right)
        return met.append_column(_FIELD, pa.nulls(met.num_rows, _FIELD.type))
    except LakesweepError as error:
        if is_tried_again and may_pass(error):
            raise
        return pa.Table.from_batches([_error_row(pickle.dumps(error), schema)])


def rows_of(output: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of all tasks; raises the error that one of them ended with."""
    errors = output.column(_FIELD.name).drop_null()
    if len(errors):
        error: LakesweepError = pickle.loads(errors[0].as_py())
        raise error
    return output.drop_columns([_FIELD.name]).cast(schema)


def _error_row(error: bytes, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(1, field.type) for field in schema]
    columns.append(pa.array([error], _FIELD.type))
    return pa.RecordBatch.from_arrays(columns, schema=with_error_column(schema))
