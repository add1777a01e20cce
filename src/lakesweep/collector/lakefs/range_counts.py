"""The ranges of many commits and how many entries each has. Metaranges grow with the history: tasks read them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.metarange_table import (
    TABLE_SCHEMA,
    MetarangeTable,
    counts_agree,
    merge_counts,
)
from lakesweep.catalogs.lakefs.ranges import read_metarange_table
from lakesweep.collector.lakefs.between_runs.metarange_cache import (
    NOTHING_REMEMBERED,
    load_metaranges,
    save_metaranges,
)
from lakesweep.collector.parts import sum_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import StorageError, UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.metarange_scan import ID_SIZE
from lakesweep.formats.metaranges import RangeCounts
from lakesweep.storage import ObjectStore

__all__ = [
    *("METARANGES_PER_TASK", "MOST_ON_DRIVER", "count_ranges", "foreseen_names", "names_of"),
    "refuse_unread",
]

logger = logging.getLogger(__name__)

# So many are read while Spark starts.
MOST_ON_DRIVER = 1_000
METARANGES_PER_TASK = 200
_METADATA = "_lakefs/"
_METADATA_FILE = f"^{_METADATA}[0-9a-f]{{64}}$"
_BYTES_PER_NAME = 100

SHARE_SCHEMA = pa.schema(
    [
        pa.field("read", pa.int64(), nullable=False),  # metaranges
        *TABLE_SCHEMA,
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


def count_ranges(
    resources: Resources, *groups: Ids, is_remembered: bool = False
) -> list[dict[RangeId, int]]:
    """For each group of metaranges its ranges and their promised counts, which must agree wherever a range is named.

    With `is_remembered`, what earlier runs left is asked first, only other metaranges are read, and they are left for later
    runs.
    """
    asked = [ids[ids != b""] for ids in groups]  # a repository's first commit has none
    known, store = NOTHING_REMEMBERED, resources.store
    # Longer ids than those of lakeFS have no place in the files.
    is_remembered = is_remembered and all(ids.dtype.itemsize == ID_SIZE for ids in asked)
    if is_remembered:
        known = load_metaranges(store, np.concatenate(asked))
    room = known.room if is_remembered else 0
    read: list[MetarangeTable] = []
    for ids in asked:
        read.append(_read(resources, ids[known.table.rows_of(ids) < 0], room))
        room -= len(read[-1].places)
    if not all(counts_agree(table.ranges, known.table.ranges) for table in read):
        logger.warning(
            "repo#%s metaranges contradict what was remembered of others: all are read",
            resources.name,
        )
        known = known.disbelieved()
        read = [_read(resources, ids, known.room // len(asked)) for ids in asked]
    found = [
        _counts_by_id(merge_counts([known.ranges_of(ids), table.ranges]))
        for ids, table in zip(asked, read, strict=True)
    ]
    if is_remembered:
        save_metaranges(store, known, read)
    return found


def _counts_by_id(found: RangeCounts) -> dict[RangeId, int]:
    return dict(
        zip(map(RangeId, found.ids.astype(str).tolist()), found.counts.tolist(), strict=True)
    )


def _read(resources: Resources, asked: Ids, most_pairs: int) -> MetarangeTable:
    """All ranges of these metaranges, and what each holds for so many as have no more pairs than this."""
    if len(asked) <= MOST_ON_DRIVER:
        return read_metarange_table(resources.store, names_of(asked), most_pairs)
    engine = resources.engine
    tasks = tasks_for(
        len(asked), engine.slots, at_most=resources.most_readers, per_task=METARANGES_PER_TASK
    )
    work = partial(_read_share, resources.target, most_pairs // tasks)
    # Each task gets one item, its share of the ids.
    shares = np.array_split(asked, tasks)
    rows = engine.collect(Scatter(shares, work, SHARE_SCHEMA, tasks)).to_pylist()
    refuse_unread(len(asked), sum(row["read"] for row in rows))
    return MetarangeTable.joined([MetarangeTable.of_row(row) for row in rows])


def _read_share(target: Target, most_pairs: int, shares: Iterator[Ids]) -> Iterator[pa.RecordBatch]:
    """Work function: one row for all of the task's metaranges."""
    asked = [name for share in shares for name in names_of(share)]
    table = read_metarange_table(target.open(), asked, most_pairs)
    row = {"read": len(asked), **table.as_row()}
    yield pa.RecordBatch.from_pylist([row], schema=SHARE_SCHEMA)


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
