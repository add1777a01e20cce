"""List folders without keeping the list: how much lies there, how old it is, and which tables' folders are in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.account import check_once, doubt
from lakesweep.collector.listing import Piece, joined
from lakesweep.collector.nessie.listing import (
    FoundTable,
    ListedFolders,
    cut,
    find_tables,
    is_metadata_file,
)
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.parts import sum_of
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter, tasks_for

_TIME = pa.timestamp("us", tz="UTC")

_SUM_SCHEMA = pa.schema(
    [
        pa.field("folder", pa.string(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("untimed", pa.int64(), nullable=False),
        pa.field("oldest", _TIME),
        pa.field("newest", _TIME),
        pa.field("metadata_files", pa.int64(), nullable=False),
        pa.field("newest_metadata_at", _TIME),
        pa.field("newest_metadata", pa.list_(pa.string()), nullable=False),
    ]
)

_TABLES_SCHEMA = pa.schema(
    [
        pa.field("pieces", pa.list_(pa.string())),
        pa.field("files", pa.int64()),
        pa.field("tables", pa.list_(pa.struct({"kind": pa.string(), "folder": pa.string()}))),
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
    metadata_files: int = 0
    newest_metadata_at: datetime | None = None
    newest_metadata: list[str] = field(default_factory=list)

    def __add__(self, other: FolderSum) -> FolderSum:
        metadata_at = max(_times(self.newest_metadata_at, other.newest_metadata_at), default=None)
        latest = [one for one in (self, other) if one.newest_metadata_at == metadata_at]
        return FolderSum(
            self.files + other.files,
            self.bytes + other.bytes,
            self.untimed + other.untimed,
            min(_times(self.oldest, other.oldest), default=None),
            max(_times(self.newest, other.newest), default=None),
            self.metadata_files + other.metadata_files,
            metadata_at,
            sorted({name for one in latest for name in one.newest_metadata}),
        )


def sum_up_folders(
    table_reader: TableReader, folders: Sequence[Location]
) -> dict[Location, FolderSum]:
    """What lies in each of these folders, which may lie in each other. Nothing is kept of the lists."""
    tasks = tasks_for(
        len(folders), table_reader.engine.slots, at_most=table_reader.most_tasks, waves=4
    )
    scatter = Scatter(folders, partial(sum_folders, table_reader.stores), _SUM_SCHEMA, tasks)
    rows = table_reader.engine.collect(scatter).to_pylist()
    found = {row.pop("folder"): FolderSum(**row) for row in rows}
    if len(found) != len(folders):
        raise doubt(f"{len(folders)} folders were to be looked at, {len(found)} have been")
    return {folder: found[folder.uri] for folder in folders}


def sum_folders(stores: TableStores, folders: Iterator[Location]) -> Iterator[pa.RecordBatch]:
    """Work function: one row of sums for each folder."""
    listed = ListedFolders(stores)
    rows = []
    for folder in folders:
        pages = listed.pages([Piece(folder)])
        files = (listed.rows(page.filter(listed.is_candidate(page))) for page in pages)
        rows.append({"folder": folder.uri, **asdict(sum(map(_sum_of, files), FolderSum()))})
    yield pa.RecordBatch.from_pylist(rows, schema=_SUM_SCHEMA)


def tables_in(table_reader: TableReader, folders: Sequence[Location]) -> frozenset[FoundTable]:
    """Folders that look like a table's now, anywhere below these, none of which lies in another: for a plan that was listed before."""
    with table_reader.phases.phase("list") as step:
        pieces = cut(table_reader.stores, folders, table_reader.engine.slots)
        tasks = tasks_for(
            len(pieces), table_reader.engine.slots, at_most=table_reader.most_tasks, waves=4
        )
        work = partial(find_tables_in, table_reader.stores)
        told = table_reader.engine.collect(Scatter(pieces, work, _TABLES_SCHEMA, tasks)).to_pylist()
        check_once("listing", (p for row in told for p in row["pieces"]), map(str, pieces))
        step.items = sum(row["files"] for row in told)
        step.said = (
            f"{step.items} files in {len(folders)} folders, for tables that are not this catalog's"
        )
    return frozenset(FoundTable(**one) for row in told for one in row["tables"])


def find_tables_in(
    stores: TableStores, pieces: Iterator[Piece[Location]]
) -> Iterator[pa.RecordBatch]:
    """Work function: one row with the tables' folders in these pieces of a listing."""
    listed, wanted = ListedFolders(stores), list(pieces)
    files, found = 0, set[FoundTable]()
    for page in joined(listed.pages(wanted)):
        rows = listed.rows(page.filter(listed.is_candidate(page)))
        files += rows.num_rows
        found |= find_tables(rows.column("uri"))
    row = {
        "pieces": [str(piece) for piece in wanted],
        "files": files,
        "tables": [one._asdict() for one in sorted(found)],
    }
    yield pa.RecordBatch.from_pylist([row], schema=_TABLES_SCHEMA)


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
        metadata.num_rows,
        at,
        metadata.column("uri").filter(newest).to_pylist(),
    )


def _times(*times: datetime | None) -> list[datetime]:
    return [time for time in times if time is not None]
