"""The ranges of many commits and how many entries each has. Metaranges grow with the history: tasks read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.ranges import distinct_ranges, merge_counts
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.metaranges import RangeCounts

__all__ = ["count_ranges"]

# So many are read while Spark starts.
_MOST_ON_DRIVER = 1_000
_PER_TASK = 200

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("metaranges", pa.int64(), nullable=False),  # that were read
        pa.field("ids", pa.binary(), nullable=False),  # of their ranges, each once, 64 bytes each
        pa.field("counts", pa.binary(), nullable=False),
    ]
)


def count_ranges(resources: Resources, metaranges: Collection[MetaRangeId]) -> dict[RangeId, int]:
    """Ranges of these metaranges and their promised counts, which must agree wherever a range is named."""
    asked = sorted(m for m in metaranges if m)  # a repository's first commit has none
    if len(asked) <= _MOST_ON_DRIVER:
        found = distinct_ranges(resources.store, asked)
    else:
        found = _read_by_tasks(resources, asked)
    return dict(
        zip(map(RangeId, found.ids.astype(str).tolist()), found.counts.tolist(), strict=True)
    )


def _read_by_tasks(resources: Resources, asked: list[MetaRangeId]) -> RangeCounts:
    engine = resources.engine
    tasks = tasks_for(len(asked), engine.slots, at_most=resources.most_readers, per_task=_PER_TASK)
    work = partial(_read_counts, resources.target)
    rows = engine.collect(Scatter(asked, work, COUNTS_SCHEMA, tasks)).to_pylist()
    read = sum(row["metaranges"] for row in rows)
    if read != len(asked):
        raise UnsafeToSweepError(
            f"{len(asked)} metaranges were to be read and {read} were. Nothing was deleted. Run again.",
            kind="metarange-missing",
        )
    return merge_counts(
        RangeCounts(np.frombuffer(row["ids"], "S64"), np.frombuffer(row["counts"], np.int64))
        for row in rows
    )


def _read_counts(target: Target, metaranges: Iterator[MetaRangeId]) -> Iterator[pa.RecordBatch]:
    """Work function: one row for all of the task's metaranges."""
    asked = list(metaranges)
    found = distinct_ranges(target.open(), asked)
    row = {
        "metaranges": len(asked),
        "ids": found.ids.tobytes(),
        "counts": found.counts.tobytes(),
    }
    yield pa.RecordBatch.from_pylist([row], schema=COUNTS_SCHEMA)
