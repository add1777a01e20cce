"""Read table and view metadata, and manifest lists: what each names, and which can't be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.domain.live_sets import ContentKind
from lakesweep.errors import FormatError
from lakesweep.formats.iceberg.manifests import read_manifest_list
from lakesweep.formats.iceberg.metadata import (
    files_of,
    read_table_metadata,
    read_view_metadata,
)
from lakesweep.runs.nessie.work.places import Lake, Unreadable, table_folder

# What a row of a work function says of the file `source`.
BASE, EARLIER = "base", "earlier folder"
MANIFEST_LIST, MANIFEST, FILE = "manifest list", "manifest", "file"
PROBLEM, NOTICE = "problem", "notice"

# Notices: what is odd about a file and stops nothing.
UNLISTED_SNAPSHOT = (
    "metadata files do not list the snapshot that is asked for, so every snapshot they list is live"
)

NAMED_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("count", pa.int64()),  # entries that a manifest list promises for a manifest
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


def read_metadata(lake: Lake, items: Iterator[MetadataItem]) -> Iterator[pa.RecordBatch]:
    """Work function: base location, manifest lists, embedded manifests and statistics files of each item."""
    wanted = {item.location: item for item in items}
    rows = _Rows()
    for location, data in lake.read_many(wanted):
        if isinstance(data, Unreadable):
            rows.add(location, PROBLEM, data.why)
        else:
            try:
                _name_files(wanted[location], data, rows)
            except FormatError as error:
                rows.add(location, PROBLEM, error.message)
        yield from rows.full()
    yield rows.rest()


def _name_files(item: MetadataItem, data: bytes, rows: _Rows) -> None:
    if item.kind is ContentKind.ICEBERG_VIEW:
        rows.add(item.location, BASE, read_view_metadata(data, item.location).location)
        return
    metadata = read_table_metadata(data, item.location)
    rows.add(item.location, BASE, metadata.location)
    for folder in sorted({table_folder(path) for path in metadata.metadata_log}):
        rows.add(item.location, EARLIER, folder)
    named: set[tuple[str, str]] = set()
    for snapshot_id in item.snapshot_ids:
        files = files_of(metadata, snapshot_id, all_snapshots=item.all_snapshots)
        named.update((MANIFEST_LIST, path) for path in files.manifest_lists)
        named.update((MANIFEST, path) for path in files.manifests)
        named.update((FILE, path) for path in files.others)
        if files.is_doubtful:
            named.add((NOTICE, UNLISTED_SNAPSHOT))
    for kind, path in sorted(named):
        rows.add(item.location, kind, path)


def read_manifest_lists(lake: Lake, paths: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: each manifest that one of these lists names, once, with the entries promised for it."""
    seen: dict[str, int | None] = {}
    rows = _Rows()
    for path, data in lake.read_many(paths):
        if isinstance(data, Unreadable):
            rows.add(path, PROBLEM, data.why)
            continue
        try:
            listed = read_manifest_list(data, path)
        except FormatError as error:
            rows.add(path, PROBLEM, error.message)
            continue
        for manifest, count in zip(listed.paths, listed.counts, strict=True):
            if manifest not in seen or (seen[manifest] is None and count is not None):
                seen[manifest] = count
                rows.add(path, MANIFEST, manifest, count)
        yield from rows.full()
    yield rows.rest()


def find_lists_naming(
    lake: Lake, manifests: frozenset[str], paths: Iterator[str]
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


class _Rows:
    """Rows of NAMED_SCHEMA, gathered into batches."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, str, int | None]] = []

    def add(self, source: str, kind: str, value: str, count: int | None = None) -> None:
        self._rows.append((source, kind, value, count))

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
