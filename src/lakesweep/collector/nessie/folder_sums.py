"""List folders without keeping the list: how much lies there, how old it is, and which metadata file is the newest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie.list_folders import FolderPiece, is_metadata_file, listed_files
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.parts import sum_of

_TIME = pa.timestamp("us", tz="UTC")

SUM_SCHEMA = pa.schema(
    [
        pa.field("folder", pa.string(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("untimed", pa.int64(), nullable=False),
        pa.field("oldest", _TIME),
        pa.field("newest", _TIME),
        pa.field("newest_metadata_at", _TIME),
        pa.field("newest_metadata", pa.list_(pa.string()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FolderSum:
    """What lies in a folder, by the store's clock. Several metadata files may be of the same, newest time."""

    files: int = 0
    bytes: int = 0
    untimed: int = 0  # files without a time
    oldest: datetime | None = None
    newest: datetime | None = None
    newest_metadata_at: datetime | None = None
    newest_metadata: frozenset[str] = frozenset()

    def __add__(self, other: FolderSum) -> FolderSum:
        metadata_at = max(_times(self.newest_metadata_at, other.newest_metadata_at), default=None)
        return FolderSum(
            self.files + other.files,
            self.bytes + other.bytes,
            self.untimed + other.untimed,
            min(_times(self.oldest, other.oldest), default=None),
            max(_times(self.newest, other.newest), default=None),
            metadata_at,
            frozenset(
                name
                for one in (self, other)
                if one.newest_metadata_at == metadata_at
                for name in one.newest_metadata
            ),
        )

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> FolderSum:
        """From a row of SUM_SCHEMA."""
        fields = {name: row[name] for name in SUM_SCHEMA.names[1:-1]}
        return cls(**fields, newest_metadata=frozenset(row["newest_metadata"]))


def sum_folders(lake: TableStores, prefixes: Iterator[FolderPiece]) -> Iterator[pa.RecordBatch]:
    """Work function: one row of sums for each prefix."""
    rows = []
    for prefix in prefixes:
        total = FolderSum()
        for batch in listed_files(lake, prefix):
            total += _sum_of(batch)
        fields = {name: getattr(total, name) for name in SUM_SCHEMA.names[1:-1]}
        names = sorted(total.newest_metadata)
        rows.append({"folder": prefix.folder.uri, **fields, "newest_metadata": names})
    yield pa.RecordBatch.from_pylist(rows, schema=SUM_SCHEMA)


def _sum_of(files: pa.RecordBatch) -> FolderSum:
    modified = files.column("last_modified")
    ages = pc.min_max(modified).as_py()
    metadata = files.filter(is_metadata_file(files.column("uri")))
    at = pc.max(metadata.column("last_modified")).as_py()
    newest = pc.equal(metadata.column("last_modified"), pa.scalar(at, _TIME))
    return FolderSum(
        files.num_rows,
        sum_of(files, "size_bytes"),
        modified.null_count,
        ages["min"],
        ages["max"],
        at,
        frozenset(metadata.column("uri").filter(newest).to_pylist()),
    )


def _times(*times: datetime | None) -> list[datetime]:
    return [time for time in times if time is not None]
