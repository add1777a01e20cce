"""List base locations into Parquet parts: every file counted, table folders that nobody knows of noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.parts import PartWriter, sum_of
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.progress import advance
from lakesweep.storage.keys import is_odd_key

FILE_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
    ]
)

LISTED_SCHEMA = pa.schema(
    [
        # "prefix", "part", "untouchable", or the kind of a table
        pa.field("kind", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("protected", pa.int64()),  # of a prefix: files that are no candidates
        pa.field("protected_bytes", pa.int64()),
    ]
)

# By which files a table's folder is known: `<table>/metadata/<anything>.metadata.json`, also compressed or beside the
# data, for Iceberg; a folder of its own name for the others.
ICEBERG, DELTA, HUDI = "Iceberg", "Delta", "Hudi"
_FILES_OF_TABLES = {
    ICEBERG: (".metadata.json", r"^(?P<table>.*?)(?:/metadata)?/[^/]*\.metadata\.json(?:\.gz)?$"),
    DELTA: ("/_delta_log/", r"^(?P<table>.*?)/_delta_log/"),
    HUDI: ("/.hoodie/", r"^(?P<table>.*?)/\.hoodie/"),
}
# Hadoop's local file system writes a hidden checksum beside each file and hides it from every listing of its own.
_CHECKSUM_FILE = r"(?:^|/)\.[^/]+\.crc$"
_EXAMPLES = 5


class FoundTable(NamedTuple):
    """A folder that looks like a table's, and the format of that table."""

    kind: str
    folder: str


@dataclass(frozen=True, slots=True)
class FolderPiece:
    """One piece of a listing: everything below a folder, or only what lies directly in it."""

    folder: Location
    recursive: bool = True


@dataclass(slots=True)
class _Seen:
    objects: int = 0
    bytes: int = 0
    protected: int = 0
    protected_bytes: int = 0


def list_folders(
    lake: TableStores, work: Target, parts_folder: str, prefixes: Iterator[FolderPiece]
) -> Iterator[pa.RecordBatch]:
    """Work function: one row per prefix with its counts, per written part, and per folder that looks like a table's."""
    writer = PartWriter(work.open(), parts_folder, "listing", FILE_SCHEMA)
    rows: list[tuple[str, str, int, int, int, int]] = []
    tables: set[FoundTable] = set()
    untouchable: list[str] = []
    for prefix in prefixes:
        seen = _Seen()
        for batch in _pages(lake, prefix):
            size = sum_of(batch, "size")
            seen.objects += batch.num_rows
            seen.bytes += size
            advance(batch.num_rows, size)
            files = _candidates(prefix.folder, batch, seen, untouchable)
            tables |= find_tables(files.column("uri"))
            writer.add(files)
        rows.append(
            (
                "prefix",
                prefix.folder.uri,
                seen.objects,
                seen.bytes,
                seen.protected,
                seen.protected_bytes,
            )
        )
    rows += [(table.kind, table.folder, 0, 0, 0, 0) for table in sorted(tables)]
    rows += [("untouchable", uri, 0, 0, 0, 0) for uri in untouchable[:_EXAMPLES]]
    rows += [("part", part.key, part.rows, part.bytes, 0, 0) for part in writer.close()]
    yield pa.RecordBatch.from_pylist(
        [dict(zip(LISTED_SCHEMA.names, row, strict=True)) for row in rows], schema=LISTED_SCHEMA
    )


def listed_files(lake: TableStores, prefix: FolderPiece) -> Iterator[pa.RecordBatch]:
    """Every file of a prefix that could be deleted, in batches of FILE_SCHEMA."""
    for batch in _pages(lake, prefix):
        yield _candidates(prefix.folder, batch, _Seen(), [])


def is_metadata_file(uris: pa.Array) -> pa.Array:
    """Which of these files are called like the metadata of an Iceberg table or view."""
    return pc.match_substring(uris, _FILES_OF_TABLES[ICEBERG][0])


def _pages(lake: TableStores, prefix: FolderPiece) -> Iterator[pa.RecordBatch]:
    store = lake.open(prefix.folder)
    return store.list() if prefix.recursive else iter([store.list_folder().objects])


def _candidates(
    folder: Location, batch: pa.RecordBatch, seen: _Seen, untouchable: list[str]
) -> pa.RecordBatch:
    # A key that the store's protocol can't carry unchanged could turn into another one on its way.
    is_odd = pc.or_(batch.column("is_odd"), pa.scalar(is_odd_key(folder.key)))
    is_out = is_odd
    if folder.kind == "local":
        is_out = pc.or_(is_odd, pc.match_substring_regex(batch.column("key"), _CHECKSUM_FILE))
    if pc.any(is_out).as_py():
        out = batch.filter(is_out)
        seen.protected += out.num_rows
        seen.protected_bytes += sum_of(out, "size")
        examples = batch.filter(is_odd).column("key")[:_EXAMPLES].to_pylist()
        untouchable += [f"{folder.uri}/{key}" for key in examples]
        batch = batch.filter(pc.invert(is_out))
    keys = batch.column("key")
    return pa.RecordBatch.from_arrays(
        [
            pc.binary_join_element_wise(folder.uri, keys.cast(pa.string()), "/"),
            batch.column("size").cast(pa.int64()),
            batch.column("last_modified").cast(pa.timestamp("us", tz="UTC")),
            batch.column("etag").cast(pa.string()),
        ],
        schema=FILE_SCHEMA,
    )


def find_tables(uris: pa.Array) -> set[FoundTable]:
    """Folders that hold a table's or view's metadata, told by the names of files in them."""
    found: set[FoundTable] = set()
    for kind, (word, pattern) in _FILES_OF_TABLES.items():
        named = uris.filter(pc.match_substring(uris, word))
        tables = pc.struct_field(pc.extract_regex(named, pattern), "table")
        found |= {FoundTable(kind, folder) for folder in tables.drop_null().unique().to_pylist()}
    return found
