"""The ranges of many commits and how many entries each has. Metaranges grow with the history: tasks read them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.ranges import distinct_ranges, merge_counts
from lakesweep.collector.parts import sum_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import StorageError, UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.metaranges import RangeCounts
from lakesweep.storage import ObjectStore

__all__ = [
    *("METARANGES_PER_TASK", "MOST_ON_DRIVER", "count_ranges", "foreseen_names", "names_of"),
    "refuse_unread",
]

# So many are read while Spark starts.
MOST_ON_DRIVER = 1_000
METARANGES_PER_TASK = 200
_METADATA = "_lakefs/"
_METADATA_FILE = f"^{_METADATA}[0-9a-f]{{64}}$"
_BYTES_PER_NAME = 100

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("metaranges", pa.int64(), nullable=False),  # that were read
        pa.field("ids", pa.binary(), nullable=False),  # of their ranges, each once, 64 bytes each
        pa.field("counts", pa.binary(), nullable=False),
    ]
)


def foreseen_names(store: ObjectStore) -> int:
    """About how many names all ranges have, by the sizes of the files in one page; zero where it can't be had.

    Their ids are hashes, so the last of a page tells which share of all files it has.
    """
    try:
        page = store.list_page(_METADATA, start_after=_METADATA)
    except StorageError:
        return 0  # it only tells whether Spark should start ahead
    if page is None:
        return 0
    files = page.filter(pc.match_substring_regex(page.column("key"), _METADATA_FILE))
    names = sum_of(files, "size") / _BYTES_PER_NAME
    if 0 < files.num_rows == page.num_rows:
        last = files.column("key")[-1].as_py().removeprefix(_METADATA)
        names /= (int(last[:8], 16) + 1) / 16**8
    return int(names)


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
