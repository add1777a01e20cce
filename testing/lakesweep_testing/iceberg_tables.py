"""Iceberg tables under change, written file by file for tests and benchmarks: any location, any format version.

table = IcebergTable(write, "file:///lake/db/t")
first = table.append("a.parquet", "b.parquet")      # Snapshot(metadata_location, snapshot_id, …)
second = table.remove("a.parquet")
table.live_files(second)                            # what a reader of that snapshot needs

Data files hold a few bytes that are no Parquet: collectors never open them.
"""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakesweep_testing.iceberg_files import (
    ADDED,
    DELETED,
    EXISTING,
    Entry,
    ListedManifest,
    table_metadata,
    view_metadata,
    write_manifest,
    write_manifest_list,
)

__all__ = [
    "EQUALITY_DELETES",
    "POSITION_DELETES",
    "IcebergTable",
    "IcebergView",
    "Manifest",
    "Snapshot",
]

Write = Callable[[str, bytes], None]

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
# Metadata names so many earlier metadata files, as writers do by default.
_EARLIER_METADATA = 100


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest and the entries in it."""

    path: str
    length: int
    entries: tuple[Entry, ...]

    def alive(self) -> Iterable[Entry]:
        """Entries that are not deleted."""
        return (entry for entry in self.entries if entry.status != DELETED)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A committed state: what a catalog stores of it, and what it needs."""

    metadata_location: str
    snapshot_id: int
    manifest_list: str | None = None
    manifests: tuple[Manifest, ...] = ()
    statistics: tuple[str, ...] = ()


@dataclass(slots=True)
class IcebergTable:
    """A table under change. Every change writes new files and returns the new state."""

    write: Write
    location: str
    format_version: int = 2
    codec: str = "deflate"
    spelling: Callable[[str], str] = field(default=lambda uri: uri)  # how manifests name files
    is_metadata_compressed: bool = False
    embeds_manifests: bool = False  # version 1: the metadata names manifests, without a list
    properties: dict[str, str] = field(default_factory=dict)
    table_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    snapshots: list[Snapshot] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)  # the table's own, with their snapshots
    metadata_files: list[str] = field(default_factory=list)
    clock: Callable[[], int] = field(default=lambda: 1_700_000_000_000)  # of its writers, in ms
    log: list[dict[str, Any]] = field(default_factory=list)  # of metadata files
    listed: dict[str, tuple[Snapshot, ...]] = field(default_factory=dict)  # by each metadata file

    def append(self, *names: str, content: int = DATA) -> Snapshot:
        """Add files in a manifest of their own; a name may be a whole URI."""
        entries = tuple(Entry(self._data_uri(name), content=content) for name in names)
        for entry in entries:
            self.write(entry.path, f"data of {entry.path}".encode())
        return self._commit([*self._current_manifests(), self._write_manifest(entries)])

    def delete_rows(self, name: str, *, content: int = POSITION_DELETES) -> Snapshot:
        """Add a file of row deletes."""
        return self.append(name, content=content)

    def delete_rows_by_vectors(self, name: str) -> Snapshot:
        """Version 3: one Puffin file with a deletion vector for every data file, instead of those they had."""
        data_files = [entry.path for entry in self.alive() if entry.content == DATA]
        path = self._data_uri(name)
        self.write(path, b"PFA1 deletion vectors")
        vectors = [
            Entry(path, content=POSITION_DELETES, deletion_vector_of=file) for file in data_files
        ]
        kept = self._without(lambda entry: entry.deletion_vector_of in data_files)
        return self._commit([*kept, self._write_manifest(vectors)])

    def remove(self, *names: str) -> Snapshot:
        """Rewrite the manifests that hold these files, with them as deleted entries."""
        gone = {self._data_uri(name) for name in names}
        return self._commit(self._without(lambda entry: entry.path in gone))

    def compact(self, *names: str) -> Snapshot:
        """Rewrite all data into these files: data and delete files of before are deleted entries."""
        replaced = self._without(lambda entry: True)
        entries = [Entry(self._data_uri(name)) for name in names]
        for entry in entries:
            self.write(entry.path, f"data of {entry.path}".encode())
        return self._commit([*replaced, self._write_manifest(entries)])

    def overwrite(self, *names: str) -> Snapshot:
        """Replace all data by these files, with a snapshot in between as pyiceberg makes it."""
        self.remove(*(entry.path for entry in self.alive()))
        return self.append(*names)

    def expire_snapshots(self, keep: int = 1) -> Snapshot:
        """Forget all but the newest snapshots; no file is touched."""
        del self.snapshots[:-keep]
        return replace(self.snapshots[-1], metadata_location=self._write_metadata())

    def tag(self, name: str) -> Snapshot:
        """Give the current snapshot a name in the table's own metadata."""
        self.tags[name] = self.snapshots[-1].snapshot_id
        return replace(self.snapshots[-1], metadata_location=self._write_metadata())

    def add_statistics(self, name: str) -> Snapshot:
        """Statistics of the current snapshot."""
        path = f"{self.location}/metadata/{name}"
        self.write(path, b"PFA1 statistics")
        newest = self.snapshots[-1]
        self.snapshots[-1] = replace(newest, statistics=(*newest.statistics, path))
        return replace(self.snapshots[-1], metadata_location=self._write_metadata())

    def write_orphan(self, name: str) -> str:
        """A file that no metadata knows."""
        path = self._data_uri(name)
        self.write(path, b"orphan")
        return path

    def live_files(
        self,
        *states: Snapshot,
        all_snapshots: bool = False,
        gone: Collection[str] = (),
    ) -> set[str]:
        """What readers of these states need: one snapshot each, or all where that one is not listed; all statistics.

        What a file names that is `gone` nobody can tell any more.
        """
        live: set[str] = set()
        for state in states:
            if state.metadata_location in gone:
                live.add(state.metadata_location)
                continue
            listed = self.listed.get(state.metadata_location, (state,))
            named = [one for one in listed if one.snapshot_id == state.snapshot_id]
            live.add(state.metadata_location)
            live |= {path for snapshot in listed for path in snapshot.statistics}
            for snapshot in listed if all_snapshots or not named else named:
                if snapshot.manifest_list in gone:
                    live.add(snapshot.manifest_list or "")
                    continue
                live |= {manifest.path for manifest in snapshot.manifests}
                readable = [m for m in snapshot.manifests if m.path not in gone]
                live |= {entry.path for m in readable for entry in m.alive()}
                if snapshot.manifest_list is not None:
                    live.add(snapshot.manifest_list)
        return live

    def _data_uri(self, name: str) -> str:
        return name if ":/" in name else f"{self.location}/data/{name}"

    def alive(self) -> list[Entry]:
        """What the newest snapshot has: data files, delete files and deletion vectors."""
        return [entry for manifest in self._current_manifests() for entry in manifest.alive()]

    def _without(self, is_gone: Callable[[Entry], bool]) -> list[Manifest]:
        """The current manifests, those rewritten that hold entries to be deleted."""
        manifests: list[Manifest] = []
        for manifest in self._current_manifests():
            entries = tuple(manifest.alive())
            if not any(map(is_gone, entries)):
                manifests.append(manifest)
                continue
            marked = [replace(e, status=DELETED if is_gone(e) else EXISTING) for e in entries]
            manifests.append(self._write_manifest(marked))
        return manifests

    def _current_manifests(self) -> list[Manifest]:
        if not self.snapshots:
            return []
        # Deleted entries are carried by the snapshot that deleted them, and by no later one.
        return [manifest for manifest in self.snapshots[-1].manifests if any(manifest.alive())]

    def _write_manifest(self, entries: Sequence[Entry]) -> Manifest:
        path = f"{self.location}/metadata/{uuid.uuid4()}-m0.avro"
        spelled = [replace(entry, path=self.spelling(entry.path)) for entry in entries]
        data = write_manifest(spelled, version=self.format_version, codec=self.codec)
        self.write(path, data)
        return Manifest(path, len(data), tuple(entries))

    def _commit(self, manifests: Sequence[Manifest]) -> Snapshot:
        snapshot = Snapshot("", int(uuid.uuid4()) >> 66, None, tuple(manifests))
        if not self.embeds_manifests:
            snapshot = replace(snapshot, manifest_list=self._write_manifest_list(snapshot))
        self.snapshots.append(snapshot)
        self.snapshots[-1] = replace(snapshot, metadata_location=self._write_metadata())
        return self.snapshots[-1]

    def _write_manifest_list(self, snapshot: Snapshot) -> str:
        path = f"{self.location}/metadata/snap-{snapshot.snapshot_id}-1-{uuid.uuid4()}.avro"
        data = write_manifest_list(
            [self._listed(manifest) for manifest in snapshot.manifests],
            version=self.format_version,
            snapshot_id=snapshot.snapshot_id,
            codec=self.codec,
        )
        self.write(path, data)
        return path

    def _listed(self, manifest: Manifest) -> ListedManifest:
        statuses = [entry.status for entry in manifest.entries]
        return ListedManifest(
            self.spelling(manifest.path),
            manifest.length,
            added=statuses.count(ADDED),
            existing=statuses.count(EXISTING),
            deleted=statuses.count(DELETED),
            is_deletes=any(entry.content != DATA for entry in manifest.entries),
        )

    def _write_metadata(self) -> str:
        suffix = ".gz.metadata.json" if self.is_metadata_compressed else ".metadata.json"
        number = len(self.metadata_files)
        folder = self.properties.get("write.metadata.path", f"{self.location}/metadata")
        path = f"{folder}/{number:05d}-{uuid.uuid4()}{suffix}"
        data = self._metadata()
        self.write(path, gzip.compress(data) if self.is_metadata_compressed else data)
        self.metadata_files.append(path)
        self.log.append({"timestamp-ms": self.clock(), "metadata-file": path})
        self.listed[path] = tuple(
            replace(one, metadata_location=one.metadata_location or path) for one in self.snapshots
        )
        return path

    def _metadata(self) -> bytes:
        newest = self.snapshots[-1].snapshot_id
        return table_metadata(
            self.location,
            [self._snapshot_fields(snapshot) for snapshot in self.snapshots],
            version=self.format_version,
            current=newest,
            table_uuid=self.table_uuid,
            properties=self.properties,
            refs={
                "main": {"snapshot-id": newest, "type": "branch"},
                **{name: {"snapshot-id": id_, "type": "tag"} for name, id_ in self.tags.items()},
            },
            metadata_log=self.log[-_EARLIER_METADATA:],
            statistics=[
                {
                    "snapshot-id": snapshot.snapshot_id,
                    "statistics-path": path,
                    "file-size-in-bytes": 15,
                    "file-footer-size-in-bytes": 4,
                    "blob-metadata": [],
                }
                for snapshot in self.snapshots
                for path in snapshot.statistics
            ],
        )

    def _snapshot_fields(self, snapshot: Snapshot) -> dict[str, Any]:
        if snapshot.manifest_list is None:
            named: dict[str, Any] = {
                "manifests": [self.spelling(manifest.path) for manifest in snapshot.manifests]
            }
        else:
            named = {"manifest-list": self.spelling(snapshot.manifest_list)}
        alive = [entry for manifest in snapshot.manifests for entry in manifest.alive()]
        data_files = sum(entry.content == DATA for entry in alive)
        summary = {
            "operation": "append",
            "total-data-files": str(data_files),
            "total-delete-files": str(len(alive) - data_files),
        }
        return {"snapshot-id": snapshot.snapshot_id, "summary": summary, **named}


@dataclass(slots=True)
class IcebergView:
    """A view: nothing but metadata files."""

    write: Write
    location: str
    versions: int = 0

    def replace(self) -> Snapshot:
        """A new version."""
        self.versions += 1
        path = f"{self.location}/metadata/{self.versions:05d}-{uuid.uuid4()}.metadata.json"
        self.write(path, view_metadata(self.location))
        return Snapshot(path, self.versions)
