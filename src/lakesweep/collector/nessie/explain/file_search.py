"""Find which live states of tables and views lead to given files, and as what: metadata, list, manifest, data, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.judge.references import LIVE
from lakesweep.collector.nessie import metadata as named
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.metadata import MetadataItem, find_lists_naming, read_metadata
from lakesweep.collector.nessie.places import TableStores, Unreadable
from lakesweep.collector.nessie.references import ManifestItem, hash_live_files
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.engine.cells import Hashes, is_in
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.avro.container import open_container
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.formats.iceberg.manifests import read_manifest

__all__ = ["DATA", "DELETE", "FileHolders", "find_holders", "find_in_manifests", "is_named"]

METADATA, MANIFEST_LIST, MANIFEST = "metadata", "manifest list", "manifest"
DATA, DELETE, STATISTICS = "data", "delete", "statistics"

FOUND_SCHEMA = pa.schema(
    [
        pa.field("manifest", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),  # the hash of its name
        pa.field("role", pa.string(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),  # why the manifest can't be read
        pa.field("is_missing", pa.bool_(), nullable=False),
    ]
)

Hash = int
Holder = tuple[DistinctContent, str]


@dataclass(frozen=True, slots=True)
class FileHolders:
    """By the hash of a file's name: the states that lead to it, each with the file's role; and what can't be read."""

    of_hash: Mapping[Hash, Sequence[Holder]]
    unreadable: Mapping[str, Unreadable]  # manifests


def find_holders(
    table_reader: TableReader,
    live: LiveFiles,
    states: Iterable[DistinctContent],
    uris: Sequence[str],
    *,
    all_snapshots: bool,
) -> FileHolders:
    """Look for files among all that live contents name, in every manifest of theirs."""
    wanted, _ = hash_listed_files(pa.array(uris, pa.string()))
    wanted = np.unique(wanted)
    in_manifests, unreadable = _in_manifests(table_reader, live.manifest_items(LIVE), wanted)
    direct = _Direct(live, wanted)
    manifests = frozenset(in_manifests) | frozenset(direct.manifests)
    lists = _lists_naming(table_reader, live, manifests)
    sources = {source for path in {*lists, *direct.lists} for source in live.lists[path]}
    sources |= {source for path in manifests for source in live.embedded.get(path, ())}
    sources |= set(direct.metadata)
    sources |= {source for path in direct.statistics for source in live.others[path]}
    of_hash: dict[Hash, list[Holder]] = {}
    for state in states:
        if state.metadata_location not in sources:
            continue
        names = _named_by(table_reader, state, all_snapshots=all_snapshots)
        roles: dict[Hash, str] = {}
        for path in {*names.manifests, *(m for one in names.lists for m in lists.get(one, ()))}:
            roles |= in_manifests.get(path, {})
            roles |= dict.fromkeys(direct.manifests.get(path, ()), MANIFEST)
        for role, found, own in (
            (STATISTICS, direct.statistics, names.statistics),
            (MANIFEST_LIST, direct.lists, names.lists),
            (METADATA, direct.metadata, {state.metadata_location}),
        ):
            roles |= {one: role for path in own for one in found.get(path, ())}
        for one, role in roles.items():
            of_hash.setdefault(one, []).append((state, role))
    return FileHolders(of_hash, unreadable)


def is_named(table_reader: TableReader, live: LiveFiles, file: Hash) -> bool:
    """Whether some contents, of dropped tables for example, name a file in any way.

    Raises:
        UnsafeToSweepError: a manifest of theirs is there and can't be read.
    """
    wanted = np.array([file], np.uint64)
    direct = _Direct(live, wanted)
    if direct.metadata or direct.lists or direct.manifests or direct.statistics:
        return True
    found, unreadable = _in_manifests(table_reader, live.manifest_items(LIVE), wanted)
    # A missing one of a dropped table was collected or purged: what is left of it is known by name.
    bad = next((path for path, why in unreadable.items() if not why.is_missing), None)
    if bad is not None:
        raise UnsafeToSweepError(
            f"The manifest {bad} can't be read: {unreadable[bad].why} So it is not known whose files it names. "
            "Nothing was said.",
            kind="live-file-unreadable",
        )
    return bool(found)


def find_in_manifests(
    wanted: Hashes, stores: TableStores, items: Iterator[ManifestItem]
) -> Iterator[pa.RecordBatch]:
    """Work function: which manifests hold which of these files, and which manifests can't be read."""
    promised = {item.path: item.promised for item in items}

    def held(data: bytes, path: str) -> tuple[Hashes, str]:
        hashes = hash_live_files(read_manifest(data, path, promised[path]).files)
        is_deletes = open_container(data).metadata.get("content") == b"deletes"
        return np.unique(hashes[is_in(hashes, wanted)]), DELETE if is_deletes else DATA

    rows: list[tuple[str, str, str, str, bool]] = []
    for path, found in stores.parse_many(promised, held):
        if isinstance(found, Unreadable):
            rows.append((path, "", "", found.why, found.is_missing))
        else:
            rows += [(path, str(one), found[1], "", False) for one in found[0]]
    yield pa.RecordBatch.from_pylist(
        [dict(zip(FOUND_SCHEMA.names, row, strict=True)) for row in rows], schema=FOUND_SCHEMA
    )


def _in_manifests(
    table_reader: TableReader, items: Sequence[ManifestItem], wanted: Hashes
) -> tuple[dict[str, dict[Hash, str]], dict[str, Unreadable]]:
    found: dict[str, dict[Hash, str]] = {}
    unreadable: dict[str, Unreadable] = {}
    for row in table_reader.read(items, partial(find_in_manifests, wanted), FOUND_SCHEMA):
        if row["problem"]:
            unreadable[row["manifest"]] = Unreadable(row["problem"], row["is_missing"])
        else:
            found.setdefault(row["manifest"], {})[int(row["file"])] = row["role"]
    return found, unreadable


class _Direct:
    """Files that are named without a manifest: path → hashes that are wanted."""

    def __init__(self, live: LiveFiles, wanted: Hashes) -> None:
        out = live.of_no_place
        self.metadata = _among(live.owners.keys() - out, wanted)
        self.lists = _among(live.lists.keys() - out, wanted)
        self.manifests = _among(live.manifests.keys() - out, wanted)
        self.statistics = _among(live.others.keys() - out, wanted)


def _among(paths: Iterable[str], wanted: Hashes) -> dict[str, list[Hash]]:
    """Which of these paths are wanted. Each is hashed by itself: behind a link, a local file has two names."""
    found: dict[str, list[Hash]] = {}
    for path in paths:
        hashes = hash_live_files(pa.array([path], pa.string()))
        if held := [int(one) for one in hashes[is_in(hashes, wanted)]]:
            found[path] = held
    return found


def _lists_naming(
    table_reader: TableReader, live: LiveFiles, manifests: frozenset[str]
) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    if manifests:
        work = partial(find_lists_naming, manifests)
        for row in table_reader.read(sorted(live.lists), work, named.NAMED_SCHEMA):
            found.setdefault(row["source"], set()).add(row["value"])
    return found


@dataclass(frozen=True, slots=True)
class _Named:
    lists: set[str]
    manifests: set[str]
    statistics: set[str]


def _named_by(table_reader: TableReader, state: DistinctContent, *, all_snapshots: bool) -> _Named:
    """What one state of a table names, and no other state of the same metadata file."""
    item = MetadataItem(
        state.metadata_location, state.content_type, (state.snapshot_id,), all_snapshots
    )
    names: dict[str, set[str]] = {}
    for batch in read_metadata(table_reader.stores, iter([item])):
        for row in batch.to_pylist():
            if row["kind"] in (named.PROBLEM, named.MISSING):
                raise UnsafeToSweepError(
                    f"{state.metadata_location} could be read a moment ago and can't be now: {row['value']} So "
                    "nothing can be said. Ask again.",
                    kind="live-file-unreadable",
                )
            names.setdefault(row["kind"], set()).add(row["value"])
    return _Named(
        *(names.get(kind, set()) for kind in (named.MANIFEST_LIST, named.MANIFEST, named.FILE))
    )
