"""Which ranges metaranges hold, kept between runs. A metarange is immutable and named by its content, so it is read once.

Each run that reads some leaves one file. A file that is damaged or was made for another namespace or by another version counts
as absent. Where files contradict each other, or what was read since, none of them is believed. Metaranges that are in no
believed file are read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakesweep.catalogs.lakefs.metarange_table import (
    NO_METARANGES,
    TABLE_SCHEMA,
    MetarangeTable,
)
from lakesweep.collector.lakefs.between_runs.sealed import read_sealed, write_sealed
from lakesweep.collector.lakefs.paths import METARANGE_CACHE
from lakesweep.collector.target import own_name
from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.metaranges import RangeCounts
from lakesweep.storage import ObjectStore

__all__ = [
    *("NOTHING_REMEMBERED", "Remembered", "load_metaranges", "read_table", "save_metaranges"),
    "write_table",
]

logger = logging.getLogger(__name__)

# Raise it when this layout changes: old files are then passed over.
CACHE_VERSION = "lakesweep.metaranges/1"
# Pairs of a metarange and a range, 4 bytes each on the driver. The seed's history has seven million.
MOST_PAIRS = 20_000_000
# So many files, and they become one, without metaranges that no commit has any more.
_MOST_FILES = 20
_STEM = "known"


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """What earlier runs have saved about the metaranges that this run asks for, and the files that they saved it in."""

    table: MetarangeTable = NO_METARANGES
    files: tuple[str, ...] = ()
    is_replaced: bool = False  # by one file, at the next save

    @property
    def room(self) -> int:
        """How many more pairs may be remembered."""
        return MOST_PAIRS - len(self.table.places)

    def ranges_of(self, asked: Ids) -> RangeCounts:
        """The ranges of the metaranges that were asked for, as far as they are remembered."""
        rows = self.table.rows_of(asked)
        return self.table.take(rows[rows >= 0]).ranges

    def disbelieved(self) -> Remembered:
        """A copy that believes nothing in these files and replaces them at the next save."""
        return replace(self, table=NO_METARANGES, is_replaced=True)


NOTHING_REMEMBERED = Remembered()


def load_metaranges(store: ObjectStore, asked: Ids) -> Remembered:
    """Load what earlier runs have saved about these metaranges; what is damaged counts as not saved."""
    files = tuple(store.keys(f"{METARANGE_CACHE}{_STEM}-"))
    is_replaced = len(files) > _MOST_FILES
    parts: list[MetarangeTable] = []
    unknown, room = asked, MOST_PAIRS
    try:
        for _, data in store.read_many(files):
            table = read_table(data, store.root)
            if table is None:
                is_replaced = True
                continue
            rows = table.rows_of(unknown)
            part = table.take(rows[rows >= 0])
            if len(part.places) <= room:
                parts.append(part)
                unknown, room = unknown[rows < 0], room - len(part.places)
    except ObjectNotFoundError:
        # A lost file only costs reading its metaranges again.
        is_replaced = True
    try:
        return Remembered(MetarangeTable.joined(parts), files, is_replaced)
    except UnsafeToSweepError:
        logger.warning("files under %s contradict each other: metaranges are read", METARANGE_CACHE)
        return Remembered(files=files, is_replaced=True)


def save_metaranges(store: ObjectStore, before: Remembered, read: Sequence[MetarangeTable]) -> None:
    """Save the metaranges that this run has read for later runs, beside those that were known before."""
    table = MetarangeTable.joined(read)
    if not len(table.metaranges):
        return
    if before.is_replaced:
        table = MetarangeTable.joined([before.table, table])
    store.write(own_name(METARANGE_CACHE, _STEM, ".arrow"), write_table(table, store.root))
    # Last: until then metaranges are told twice, which is no more than once.
    if before.is_replaced:
        store.delete_many(list(before.files))


def write_table(table: MetarangeTable, namespace: Location) -> bytes:
    """The table as the bytes of a file that is believed for this namespace only."""
    batch = pa.RecordBatch.from_pylist([table.as_row()], schema=TABLE_SCHEMA)
    return write_sealed(batch, CACHE_VERSION, namespace, compression="zstd")


def read_table(data: bytes, namespace: Location) -> MetarangeTable | None:
    """The table that a file holds; None where it is not as we wrote it, or not for this namespace and version."""
    for batch in read_sealed(data, CACHE_VERSION, namespace):
        row = {name: batch.column(name)[0].as_buffer() for name in TABLE_SCHEMA.names}
        return MetarangeTable.of_row(row)
    return None
