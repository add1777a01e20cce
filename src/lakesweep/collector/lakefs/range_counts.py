"""The ranges of many commits and how many entries each has. Metaranges grow with the history: tasks read them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.ranges import distinct_ranges, merge_counts
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.metaranges import RangeCounts

__all__ = ["METARANGES_PER_TASK", "MOST_ON_DRIVER", "count_ranges", "names_of", "refuse_unread"]

# So many are read while Spark starts.
MOST_ON_DRIVER = 1_000
METARANGES_PER_TASK = 200

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("metaranges", pa.int64(), nullable=False),  # that were read
        pa.field("ids", pa.binary(), nullable=False),  # of their ranges, each once, 64 bytes each
        pa.field("counts", pa.binary(), nullable=False),
    ]
)


def count_ranges(resources: Resources, metaranges: Ids) -> dict[RangeId, int]:
    """Ranges of these metaranges and their promised counts, which must agree wherever a range is named."""
    asked = metaranges[metaranges != b""]  # a repository's first commit has none
    if len(asked) <= MOST_ON_DRIVER:
        found = distinct_ranges(resources.store, names_of(asked))
    else:
        found = _read_by_tasks(resources, asked)
    return dict(
        zip(map(RangeId, found.ids.astype(str).tolist()), found.counts.tolist(), strict=True)
    )


def _read_by_tasks(resources: Resources, asked: Ids) -> RangeCounts:
    engine = resources.engine
    tasks = tasks_for(
        len(asked), engine.slots, at_most=resources.most_readers, per_task=METARANGES_PER_TASK
    )
    work = partial(_read_counts, resources.target)
    # Each task gets one item, its share of the ids.
    shares = np.array_split(asked, tasks)
    rows = engine.collect(Scatter(shares, work, COUNTS_SCHEMA, tasks)).to_pylist()
    refuse_unread(len(asked), sum(row["metaranges"] for row in rows))
    return merge_counts(
        RangeCounts(np.frombuffer(row["ids"], "S64"), np.frombuffer(row["counts"], np.int64))
        for row in rows
    )


def _read_counts(target: Target, shares: Iterator[Ids]) -> Iterator[pa.RecordBatch]:
    """Work function: one row for all of the task's metaranges."""
    asked = [name for share in shares for name in names_of(share)]
    found = distinct_ranges(target.open(), asked)
    row = {
        "metaranges": len(asked),
        "ids": found.ids.tobytes(),
        "counts": found.counts.tobytes(),
    }
    yield pa.RecordBatch.from_pylist([row], schema=COUNTS_SCHEMA)


def refuse_unread(asked: int, read: int) -> None:
    """Refuse to go on where tasks have not read all metaranges."""
    if read != asked:
        raise UnsafeToSweepError(
            f"{asked} metaranges were to be read and {read} were. Nothing was deleted. Run again.",
            kind="metarange-missing",
        )


def names_of(ids: Ids) -> list[MetaRangeId]:
    """Metaranges of a column, one by one."""
    return [MetaRangeId(raw.decode()) for raw in ids.tolist()]
