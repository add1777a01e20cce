"""The listing of base locations: files by their URIs, and table folders that nobody knows of noticed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.listing import ListedCatalog, Listing, Piece
from lakesweep.collector.nessie.places import TableStores
from lakesweep.domain.location import Location
from lakesweep.storage import LISTING_SCHEMA, ObjectStore
from lakesweep.storage.keys import is_odd_key

FILE_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", tz="UTC")),
        pa.field("etag", pa.string()),
    ]
)

# By which files a table's folder is known: `<table>/metadata/<anything>.metadata.json`, also compressed or beside the
# data, for Iceberg; a folder of its own name for the others. Manifests tell a table from a view.
ICEBERG, MANIFESTS, DELTA, HUDI = "Iceberg", "Iceberg, with manifests", "Delta", "Hudi"
_FILES_OF_TABLES = {
    ICEBERG: (".metadata.json", r"^(?P<table>.*?)(?:/metadata)?/[^/]*\.metadata\.json(?:\.gz)?$"),
    MANIFESTS: (".avro", r"^(?P<table>.*)/metadata/[^/]*\.avro$"),
    DELTA: ("/_delta_log/", r"^(?P<table>.*?)/_delta_log/"),
    HUDI: ("/.hoodie/", r"^(?P<table>.*?)/\.hoodie/"),
}
# Hadoop's local file system writes a hidden checksum beside each file and hides it from every listing of its own.
_CHECKSUM_FILE = r"(?s)^file:.*/\.[^/]+\.crc$"

UNTOUCHABLE = "untouchable"
_EXAMPLES = 5

# Folders are opened until there are so many pieces for each slot, or so deep.
_PIECES_PER_SLOT = 4
_DEEPEST = 3


class FoundTable(NamedTuple):
    """A folder that looks like a table's, and the format of that table."""

    kind: str
    folder: str


@dataclass(frozen=True, slots=True)
class ListedFolders(ListedCatalog[Location]):
    """Files below folders, by their URIs."""

    stores: TableStores
    schema: pa.Schema = FILE_SCHEMA

    def places(
        self, pieces: Sequence[Piece[Location]]
    ) -> Iterator[tuple[ObjectStore, dict[Piece[Location], str]]]:
        for piece in pieces:
            yield self.stores.open(piece.folder), {piece: ""}

    def named(self, piece: Piece[Location], page: pa.RecordBatch) -> pa.RecordBatch:
        keys, *more, is_odd = page.columns
        uris = pc.binary_join_element_wise(piece.folder.uri, keys, "/")
        is_odd = pc.or_(is_odd, is_odd_key(piece.folder.key))
        return pa.RecordBatch.from_arrays([uris, *more, is_odd], schema=LISTING_SCHEMA)

    def is_candidate(self, page: pa.RecordBatch) -> pa.Array:
        is_checksum = pc.match_substring_regex(page.column("key"), _CHECKSUM_FILE)
        return pc.invert(pc.or_(page.column("is_odd"), is_checksum))

    def notices(self, rows: pa.RecordBatch, protected: pa.RecordBatch) -> Iterator[tuple[str, str]]:
        """Folders that look like a table's, and a few names that a store can't carry unchanged."""
        yield from sorted(find_tables(rows.column("uri")))
        odd = protected.column("key").filter(protected.column("is_odd"))
        yield from ((UNTOUCHABLE, uri) for uri in odd[:_EXAMPLES].to_pylist())


def find_tables(uris: pa.Array) -> set[FoundTable]:
    """Folders that hold a table's or view's metadata, told by the names of files in them."""
    found: set[FoundTable] = set()
    for kind, (word, pattern) in _FILES_OF_TABLES.items():
        named = uris.filter(pc.match_substring(uris, word))
        tables = pc.struct_field(pc.extract_regex(named, pattern), "table")
        found |= {FoundTable(kind, folder) for folder in tables.drop_null().unique().to_pylist()}
    return found


def is_metadata_file(uris: pa.Array) -> pa.Array:
    """Which of these files are called like the metadata of an Iceberg table or view."""
    return pc.match_substring(uris, _FILES_OF_TABLES[ICEBERG][0])


def tables_of(listing: Listing) -> frozenset[FoundTable]:
    """Folders that look like a table's."""
    return frozenset(
        FoundTable(kind, folder)
        for kind in _FILES_OF_TABLES
        for folder in listing.notices.get(kind, ())
    )


def cut(stores: TableStores, roots: Sequence[Location], slots: int) -> list[Piece[Location]]:
    """Roots, opened folder by folder while there are too few pieces to keep every slot busy."""
    whole: list[Piece[Location]] = []
    deep = list(roots)
    for _ in range(_DEEPEST):
        if not deep or len(deep) + len(whole) >= slots * _PIECES_PER_SLOT:
            break
        opened: list[Location] = []
        for folder in deep:
            inside = stores.open(folder).list_folder()
            names = [name.removesuffix("/") for name in inside.folders]
            if any(name in ("", ".", "..") for name in names):
                whole.append(Piece(folder))  # such a folder can't be opened by its name
                continue
            if inside.objects.num_rows:
                whole.append(Piece(folder, recursive=False))
            opened += [folder.child(name) for name in names]
        deep = opened
    return [*whole, *(Piece(folder) for folder in deep)]
