"""Read table and view metadata, and manifest lists: what each names, and which can't be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lakesweep.collector.nessie.places import TableStores, Unreadable, table_folder
from lakesweep.domain.live_sets import ContentKind
from lakesweep.engine.tasks import chunked
from lakesweep.errors import FormatError
from lakesweep.formats.iceberg.manifests import (
    ManifestList,
    Promised,
    read_manifest,
    read_manifest_list,
)
from lakesweep.formats.iceberg.metadata import (
    LoggedMetadata,
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
        # Entries promised for a manifest, files for a manifest list; of an earlier folder, when its newest file was written.
        pa.field("count", pa.int64()),
        pa.field("length", pa.int64()),  # bytes promised for a manifest
    ]
)

_ROWS_PER_BATCH = 20_000


class Named(NamedTuple):
    """One thing that the file `source` names, or why it can't be read; as a row of NAMED_SCHEMA."""

    source: str
    kind: str
    value: str
    promised: int | None = None
    length: int | None = None

    @classmethod
    def unreadable(cls, source: str, found: Unreadable) -> Named:
        """The row which says that a file can't be read."""
        return cls(source, MISSING if found.is_missing else PROBLEM, found.why)


def in_batches(rows: Iterable[Named]) -> Iterator[pa.RecordBatch]:
    """These rows in Arrow batches, as a work function yields them."""
    for chunk in chunked(rows, _ROWS_PER_BATCH):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, NAMED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=NAMED_SCHEMA)


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """A metadata file that live contents point to, and the snapshots of it that they name."""

    location: str
    kind: ContentKind
    snapshot_ids: tuple[int, ...]
    all_snapshots: bool = False
    name_log: bool = False  # name all earlier metadata files, and not just those in other folders


def read_metadata(stores: TableStores, items: Iterator[MetadataItem]) -> Iterator[pa.RecordBatch]:
    """Work function: base location, manifest lists, embedded manifests and statistics files of each item."""
    return in_batches(_metadata_rows(stores, items))


def _metadata_rows(stores: TableStores, items: Iterator[MetadataItem]) -> Iterator[Named]:
    wanted = {item.location: item for item in items}
    counted = _LiveEntries(stores)
    for location, data in stores.read_many(wanted):
        if isinstance(data, Unreadable):
            yield Named.unreadable(location, data)
            continue
        try:
            yield from (Named(location, *of) for of in _named_in(wanted[location], data, counted))
        except FormatError as error:
            yield Named(location, PROBLEM, error.message)


def _named_in(
    item: MetadataItem, data: bytes, counted: _LiveEntries
) -> Iterator[tuple[str, str] | tuple[str, str, int | None]]:
    """(kind, value) of all that a metadata file names, with the files promised of a manifest list, or an earlier folder's time."""
    if item.kind is ContentKind.ICEBERG_VIEW:
        # A view has metadata and no data, so nothing else at its location is known to be the view's.
        location = read_view_metadata(data, item.location).location
        yield BASE, f"{location.rstrip('/')}/metadata"
        return
    metadata = read_table_metadata(data, item.location)
    yield BASE, metadata.location
    folders = {one.path: table_folder(one.path) for one in metadata.metadata_log}
    yield from ((EARLIER, *of) for of in _newest_by_folder(metadata.metadata_log))
    own = table_folder(item.location)
    yield from ((LOGGED, p) for p, folder in folders.items() if item.name_log or folder != own)
    yield from ((WRITE_PATH, path) for path in metadata.write_paths)
    snapshots: dict[int, SnapshotFiles] = {}
    for snapshot_id in item.snapshot_ids:
        files = files_of(metadata, snapshot_id, all_snapshots=item.all_snapshots)
        snapshots |= {one.snapshot_id: one for one in files.snapshots}
        if files.is_doubtful:
            yield NOTICE, UNLISTED_SNAPSHOT
    yield from ((FILE, path) for path in dict.fromkeys(metadata.statistics))
    for _, one in sorted(snapshots.items()):
        if one.manifest_list is not None:
            yield MANIFEST_LIST, one.manifest_list, one.total_files
            continue
        counted.refuse_fewer(one.manifests, one.total_files, f"snapshot {one.snapshot_id}")
        yield from ((MANIFEST, path) for path in one.manifests)


def _newest_by_folder(log: Iterable[LoggedMetadata]) -> list[tuple[str, int | None]]:
    """The folders of earlier metadata files, and when the newest in each was written (None: one has no time)."""
    times: dict[str, list[int | None]] = {}
    for path, written_ms in log:
        times.setdefault(table_folder(path), []).append(written_ms)
    known = {folder: [one for one in own if one is not None] for folder, own in times.items()}
    return [
        (folder, max(known[folder]) if len(known[folder]) == len(own) else None)
        for folder, own in sorted(times.items())
    ]


def read_manifest_lists(
    stores: TableStores, items: Iterator[tuple[str, int | None]]
) -> Iterator[pa.RecordBatch]:
    """Work function: each manifest that one of these lists names, with what is promised of it.

    An item is a list's path, and the files that its snapshot's summary promises.
    """
    return in_batches(_manifest_list_rows(stores, dict(items)))


def read_whole_lists(
    stores: TableStores, totals: Mapping[str, int | None]
) -> Iterator[tuple[str, ManifestList | Unreadable]]:
    """Manifest lists by path; `Unreadable`, too, where one names fewer files than its snapshot's summary promises."""
    counted = _LiveEntries(stores)

    def whole_list(data: bytes, path: str) -> ManifestList:
        listed, total = read_manifest_list(data, path), totals[path]
        if total is not None and (listed.live_entries is None or listed.live_entries < total):
            counted.refuse_fewer(listed.paths, total, "it")
        return listed

    return stores.parse_many(totals, whole_list)


def _manifest_list_rows(stores: TableStores, totals: dict[str, int | None]) -> Iterator[Named]:
    seen: dict[str, Promised] = {}
    for path, listed in read_whole_lists(stores, totals):
        if isinstance(listed, Unreadable):
            yield Named.unreadable(path, listed)
            continue
        for manifest, promised in zip(listed.paths, listed.promised, strict=True):
            known = seen.get(manifest)
            if known != promised:
                seen[manifest] = promised if known is None else known.at_least(promised)
                yield Named(path, MANIFEST, manifest, *promised)


def find_lists_naming(
    manifests: frozenset[str], stores: TableStores, paths: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: which of these lists name which of the manifests; asked only to say whose a bad manifest is."""
    return in_batches(
        Named(path, MANIFEST, manifest)
        for path, listed in stores.parse_many(paths, read_manifest_list)
        if not isinstance(listed, Unreadable)
        for manifest in manifests.intersection(listed.paths)
    )


class _LiveEntries:
    """Counts the live entries of manifests, each read once by a task.

    It is asked where a manifest list says less than its snapshot's summary: writers exist that count wrongly in the
    list, so the manifests themselves decide whether the list was cut short.
    """

    def __init__(self, stores: TableStores) -> None:
        self._stores = stores
        self._counts: dict[str, int | None] = {}  # None: can't be read, and is a problem by itself

    def refuse_fewer(self, manifests: Sequence[str], total: int | None, what: str) -> None:
        """Raise where all manifests can be read and hold fewer files together than promised."""
        if total is None:
            return
        new = dict.fromkeys(path for path in manifests if path not in self._counts)
        for path, read in self._stores.parse_many(new, partial(read_manifest, promised=Promised())):
            self._counts[path] = None if isinstance(read, Unreadable) else len(read.files)
        counts = [self._counts[path] for path in manifests]
        found = sum(count for count in counts if count is not None)
        if None not in counts and found < total:
            raise FormatError(
                f"the {len(manifests)} manifests that {what} names hold {found} files, and the snapshot's summary "
                f"promises {total}: it was cut short, or its writer counts wrongly",
                kind="damaged-manifest",
            )
