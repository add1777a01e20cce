"""Read table and view metadata, and manifest lists: what each names, and which can't be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.collector.nessie.places import TableStores, Unreadable, table_folder
from lakesweep.domain.live_sets import ContentKind
from lakesweep.errors import FormatError
from lakesweep.formats.iceberg.manifests import Promised, read_manifest, read_manifest_list
from lakesweep.formats.iceberg.metadata import (
    SnapshotFiles,
    files_of,
    read_table_metadata,
    read_view_metadata,
)

# What a row of a work function says of the file `source`.
BASE, EARLIER, WRITE_PATH = "base", "earlier folder", "write path"
LOGGED = "earlier metadata file"
MANIFEST_LIST, MANIFEST, FILE = "manifest list", "manifest", "file"
PROBLEM, MISSING, NOTICE = "problem", "missing", "notice"

# Notices: what is odd about a file and stops nothing.
UNLISTED_SNAPSHOT = (
    "metadata files do not list the snapshot that is asked for, so every snapshot they list is live"
)

NAMED_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("count", pa.int64()),  # entries promised for a manifest, files for a manifest list
        pa.field("length", pa.int64()),  # bytes promised for a manifest
    ]
)

_ROWS_PER_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """A metadata file that live contents point to, and the snapshots of it that they name."""

    location: str
    kind: ContentKind
    snapshot_ids: tuple[int, ...]
    all_snapshots: bool = False
    name_log: bool = False  # name all earlier metadata files, and not just those in other folders


def read_metadata(lake: TableStores, items: Iterator[MetadataItem]) -> Iterator[pa.RecordBatch]:
    """Work function: base location, manifest lists, embedded manifests and statistics files of each item."""
    wanted = {item.location: item for item in items}
    counted = _LiveEntries(lake)
    rows = _Rows()
    for location, data in lake.read_many(wanted):
        if isinstance(data, Unreadable):
            rows.add_unreadable(location, data)
        else:
            try:
                _name_files(wanted[location], data, counted, rows)
            except FormatError as error:
                rows.add(location, PROBLEM, error.message)
        yield from rows.full()
    yield rows.rest()


def _name_files(item: MetadataItem, data: bytes, counted: _LiveEntries, rows: _Rows) -> None:
    if item.kind is ContentKind.ICEBERG_VIEW:
        rows.add(item.location, BASE, read_view_metadata(data, item.location).location)
        return
    metadata = read_table_metadata(data, item.location)
    rows.add(item.location, BASE, metadata.location)
    folders = {path: table_folder(path) for path in metadata.metadata_log}
    for folder in sorted(set(folders.values())):
        rows.add(item.location, EARLIER, folder)
    own = table_folder(item.location)
    for path, folder in folders.items():
        if item.name_log or folder != own:
            rows.add(item.location, LOGGED, path)
    for path in metadata.write_paths:
        rows.add(item.location, WRITE_PATH, path)
    snapshots: dict[int, SnapshotFiles] = {}
    for snapshot_id in item.snapshot_ids:
        files = files_of(metadata, snapshot_id, all_snapshots=item.all_snapshots)
        snapshots |= {one.snapshot_id: one for one in files.snapshots}
        if files.is_doubtful:
            rows.add(item.location, NOTICE, UNLISTED_SNAPSHOT)
    for path in dict.fromkeys(metadata.statistics):
        rows.add(item.location, FILE, path)
    for _, one in sorted(snapshots.items()):
        if one.manifest_list is not None:
            rows.add(item.location, MANIFEST_LIST, one.manifest_list, one.total_files)
            continue
        counted.refuse_fewer(one.manifests, one.total_files, f"snapshot {one.snapshot_id}")
        for path in one.manifests:
            rows.add(item.location, MANIFEST, path)


@dataclass(frozen=True, slots=True)
class ListItem:
    """A manifest list to read, and the files that its snapshot's summary promises."""

    path: str
    total_files: int | None = None


def read_manifest_lists(lake: TableStores, items: Iterator[ListItem]) -> Iterator[pa.RecordBatch]:
    """Work function: each manifest that one of these lists names, with what is promised of it."""
    wanted = {item.path: item for item in items}
    seen: dict[str, Promised] = {}
    counted = _LiveEntries(lake)
    rows = _Rows()
    for path, data in lake.read_many(wanted):
        if isinstance(data, Unreadable):
            rows.add_unreadable(path, data)
            continue
        try:
            listed = read_manifest_list(data, path)
            total = wanted[path].total_files
            if total is not None and (listed.live_entries is None or listed.live_entries < total):
                counted.refuse_fewer(listed.paths, total, "it")
        except FormatError as error:
            rows.add(path, PROBLEM, error.message)
            continue
        for manifest, promised in zip(listed.paths, listed.promised, strict=True):
            known = seen.get(manifest)
            if known != promised:
                seen[manifest] = promised if known is None else known.at_least(promised)
                rows.add(path, MANIFEST, manifest, *promised)
        yield from rows.full()
    yield rows.rest()


def find_lists_naming(
    manifests: frozenset[str], lake: TableStores, paths: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: which of these lists name which of the manifests; asked only to say whose a bad manifest is."""
    rows = _Rows()
    for path, data in lake.read_many(paths):
        if isinstance(data, Unreadable):
            continue
        try:
            listed = read_manifest_list(data, path)
        except FormatError:
            continue
        for manifest in manifests.intersection(listed.paths):
            rows.add(path, MANIFEST, manifest)
    yield rows.rest()


class _LiveEntries:
    """Counts the live entries of manifests, each read once by a task.

    It is asked where a manifest list says less than its snapshot's summary: writers exist that count wrongly in the
    list, so the manifests themselves decide whether the list was cut short.
    """

    def __init__(self, lake: TableStores) -> None:
        self._lake = lake
        self._counts: dict[str, int | None] = {}  # None: can't be read, and is a problem by itself

    def refuse_fewer(self, manifests: Sequence[str], total: int | None, what: str) -> None:
        """Raise where all manifests can be read and hold fewer files together than promised."""
        if total is None:
            return
        new = dict.fromkeys(path for path in manifests if path not in self._counts)
        for path, data in self._lake.read_many(new):
            self._counts[path] = _count_live(path, data)
        counts = [self._counts[path] for path in manifests]
        found = sum(count for count in counts if count is not None)
        if None not in counts and found < total:
            raise FormatError(
                f"the {len(manifests)} manifests that {what} names hold {found} files, and the snapshot's summary "
                f"promises {total}: it was cut short, or its writer counts wrongly",
                kind="damaged-manifest",
            )


def _count_live(path: str, data: bytes | Unreadable) -> int | None:
    if isinstance(data, Unreadable):
        return None
    try:
        return len(read_manifest(data, path, Promised()).files)
    except FormatError:
        return None


class _Rows:
    """Rows of NAMED_SCHEMA, gathered into batches."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str, int | None, int | None]] = []

    def add(
        self,
        source: str,
        kind: str,
        value: str,
        count: int | None = None,
        length: int | None = None,
    ) -> None:
        self._rows.append((source, kind, value, count, length))

    def add_unreadable(self, source: str, found: Unreadable) -> None:
        self.add(source, MISSING if found.is_missing else PROBLEM, found.why)

    def full(self) -> Iterator[pa.RecordBatch]:
        """A batch, when enough has come together."""
        if len(self._rows) >= _ROWS_PER_BATCH:
            yield self.rest()

    def rest(self) -> pa.RecordBatch:
        """All that is there."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(NAMED_SCHEMA)
        self._rows = []
        return pa.RecordBatch.from_arrays(
            [pa.array(list(c), f.type) for c, f in zip(columns, NAMED_SCHEMA, strict=True)],
            schema=NAMED_SCHEMA,
        )
