"""Sum up garbage for a reader: over the columns of the parts that a mark wrote, in the tasks, with bounded memory.

What comes to the driver is one small text for each task, however many rows there are.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commit_summary import CommitSummary
from lakesweep.domain.garbage_summary import (
    AGES,
    LARGEST,
    SIZES,
    GarbageSummary,
    LargeObject,
    decode_garbage,
)
from lakesweep.domain.run_summary import RunSummary, encode_summary
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Engine, Scatter, tasks_for
from lakesweep.errors import FormatError, LakesweepError, foreign_errors_as_ours
from lakesweep.formats.tables import open_parquet
from lakesweep.json_text import parse_json

logger = logging.getLogger(__name__)

SUMS_SCHEMA = pa.schema([pa.field("summary", pa.string(), nullable=False)])

# Fewer rows are summed up sooner here than tasks are started for them.
_ROWS_HERE = 300_000
_SECONDS_PER_ROW = 0.5e-6
_DAY = timedelta(days=1)


def save_summary(
    resources: Resources,
    key: str,
    parts: Sequence[Part],
    commits: Callable[[], CommitSummary] | None = None,
) -> None:
    """Sum up the garbage of a run and write the sums to `key`. A run goes on without them where that fails."""
    with resources.phases.phase("sum up") as step:
        step.items = tally_of(parts).objects
        step.said = f"{step.items} garbage summed up for the report"
        try:
            with foreign_errors_as_ours("The report has no sums of the garbage."):
                as_of = resources.clock()
                most = resources.most_tasks
                found = sum_garbage(resources.engine, resources.target, parts, as_of, most)
                if found.total != tally_of(parts) or not found.is_whole:
                    raise FormatError(f"{tally_of(parts)} are garbage, the sums have {found.total}")
                summary = RunSummary(as_of, found, commits() if commits is not None else None)
                resources.store.write(key, encode_summary(summary))
        except LakesweepError as error:
            step.said = "no sums for the report"
            logger.warning("The garbage could not be summed up for the report: %s", error.message)


def sum_garbage(
    engine: Engine, target: Target, parts: Sequence[Part], as_of: datetime, most_tasks: int
) -> GarbageSummary:
    """Sums over all rows of these parts; ages are counted back from `as_of`."""
    work = partial(sum_parts, target, as_of)
    keys = [part.key for part in parts]
    rows = sum(part.rows for part in parts)
    if rows <= _ROWS_HERE:
        told = [batch.column("summary") for batch in work(iter(keys))]
    else:
        tasks = tasks_for(len(keys), engine.slots, at_most=most_tasks)
        scatter = Scatter(keys, work, SUMS_SCHEMA, tasks, seconds=rows * _SECONDS_PER_ROW)
        told = [engine.collect(scatter).column("summary")]
    texts = (text for column in told for text in column.to_pylist())
    return sum((decode_garbage(parse_json(text)) for text in texts), GarbageSummary())


def sum_parts(target: Target, as_of: datetime, keys: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """The sums of one task's parts, as one row."""
    store, found = target.open(), GarbageSummary()
    for key, data in store.read_many(list(keys)):
        del key
        found += sum_rows(open_parquet(data), as_of)
    text = json.dumps(found.as_json())
    yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], schema=SUMS_SCHEMA)


def sum_rows(file: pq.ParquetFile, as_of: datetime) -> GarbageSummary:
    """The sums of one part, whichever catalog wrote it."""
    found = GarbageSummary()
    has_reason = "reason" in file.schema_arrow.names
    name = "address" if "address" in file.schema_arrow.names else "uri"
    columns = [name, "size_bytes", "last_modified", *(["reason"] if has_reason else [])]
    for batch in file.iter_batches(columns=columns, batch_size=200_000):
        rows = pa.table(
            {
                "name": batch.column(name),
                "size": batch.column("size_bytes"),
                "modified": batch.column("last_modified"),
                "reason": batch.column("reason")
                if has_reason
                else pa.repeat(pa.scalar("unreferenced"), batch.num_rows),
            }
        )
        found += _sum_batch(rows, as_of)
    return found


def _sum_batch(rows: pa.Table, as_of: datetime) -> GarbageSummary:
    sizes = rows.column("size").fill_null(0).to_numpy()
    has_size = rows.column("size").is_valid().to_numpy()
    modified = rows.column("modified")
    has_time = modified.is_valid().to_numpy()
    micros = modified.cast(pa.int64()).fill_null(0).to_numpy()
    ages = int(as_of.timestamp() * 1e6) - micros
    day = _DAY // timedelta(microseconds=1)
    rows = rows.append_column("folder", _folders(rows.column("name")))
    return GarbageSummary(
        Tally(rows.num_rows, int(sizes.sum())),
        _by(rows, "reason"),
        _by(rows, "folder"),
        _classes(ages, has_time, sizes, [days * day for days, _ in AGES]),
        _classes(sizes, has_size, sizes, [low for low, _ in SIZES]),
        _largest(rows),
    )


def _folders(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """The folder of each name, with its closing slash; empty for a name in no folder."""
    halves = pc.split_pattern(names, "/", max_splits=1, reverse=True)
    outer = pc.binary_join_element_wise(pc.list_element(halves, 0), "", "/")
    return pc.if_else(pc.equal(pc.list_value_length(halves), 2), outer, "")


def _by(rows: pa.Table, column: str) -> dict[str, Tally]:
    grouped = rows.group_by(column).aggregate([("size", "sum"), ([], "count_all")])
    names, totals = grouped.column(column).to_pylist(), grouped.column("size_sum").to_pylist()
    counts = grouped.column("count_all").to_pylist()
    return {
        name or "": Tally(count, size or 0)
        for name, count, size in zip(names, counts, totals, strict=True)
    }


def _classes(
    values: npt.NDArray[np.int64],
    is_known: npt.NDArray[np.bool_],
    sizes: npt.NDArray[np.int64],
    lows: Sequence[int],
) -> tuple[Tally, ...]:
    # What is dated in the future is of the youngest class.
    places = np.searchsorted(lows, np.maximum(values, lows[0]), side="right") - 1
    places[~is_known] = len(lows)
    masks = (places == place for place in range(len(lows) + 1))
    return tuple(Tally(int(np.count_nonzero(m)), int(sizes[m].sum())) for m in masks)


def _largest(rows: pa.Table) -> tuple[LargeObject, ...]:
    sized = rows.filter(rows.column("size").is_valid())
    order = pc.select_k_unstable(
        sized, k=min(LARGEST, sized.num_rows), sort_keys=[("size", "descending")]
    )
    return tuple(
        LargeObject(row["name"], row["size"], row["modified"], row["reason"] or "")
        for row in sized.take(order).to_pylist()
    )
