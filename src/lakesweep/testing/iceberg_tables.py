"""Iceberg tables written straight, file by file, for tests and benchmarks: any location, any format version.

table = IcebergTable(lake, "file:///lake/db/t")
first = table.append("a.parquet", "b.parquet")      # Snapshot(metadata_location, snapshot_id)
second = table.remove("a.parquet")
table.live_files(second)                            # what a reader of that snapshot needs

Data files hold a few bytes that are no Parquet: collectors never open them.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakesweep.testing.avro_writer import write_avro
from lakesweep.testing.iceberg_schemas import manifest_list_schema, manifest_schema

__all__ = ["DataFile", "IcebergTable", "IcebergView", "Manifest", "Snapshot"]

Write = Callable[[str, bytes], None]

ADDED, EXISTING, DELETED = 1, 0, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data or delete file and the status of its entry."""

    path: str
    content: int = DATA
    status: int = ADDED


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest and the entries in it."""

    path: str
    length: int
    files: tuple[DataFile, ...]
    snapshot_id: int
    sequence: int

    @property
    def is_of_deletes(self) -> bool:
        return any(file.content != DATA for file in self.files)


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
    table_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    snapshots: list[Snapshot] = field(default_factory=list)
    metadata_files: list[str] = field(default_factory=list)
    _sequence: int = 0

    def create(self) -> Snapshot:
        """Metadata without any snapshot."""
        return Snapshot(self._write_metadata(), -1)

    def append(self, *names: str, content: int = DATA) -> Snapshot:
        """Add files in a manifest of their own; a name may be a whole URI."""
        files = tuple(DataFile(self._data_uri(name), content) for name in names)
        for file in files:
            self.write(file.path, f"data of {file.path}".encode())
        return self._commit([*self._current_manifests(), self._write_manifest(files)])

    def delete_rows(self, name: str, *, content: int = POSITION_DELETES) -> Snapshot:
        """Add a file of row deletes."""
        return self.append(name, content=content)

    def remove(self, *names: str) -> Snapshot:
        """Rewrite the manifests that hold these files, with them as deleted entries."""
        gone = {self._data_uri(name) for name in names}
        manifests: list[Manifest] = []
        for manifest in self._current_manifests():
            files = tuple(file for file in manifest.files if file.status != DELETED)
            if gone.isdisjoint(file.path for file in files):
                manifests.append(manifest)
                continue
            marked = tuple(
                replace(file, status=DELETED if file.path in gone else EXISTING) for file in files
            )
            manifests.append(self._write_manifest(marked))
        return self._commit(manifests)

    def overwrite(self, *names: str) -> Snapshot:
        """Replace all data by these files, with a snapshot in between as pyiceberg makes it."""
        self.remove(*(f.path for m in self._current_manifests() for f in _alive(m)))
        return self.append(*names)

    def expire_snapshots(self, keep: int = 1) -> Snapshot:
        """Forget all but the newest snapshots; no file is touched."""
        del self.snapshots[:-keep]
        newest = self.snapshots[-1]
        return replace(newest, metadata_location=self._write_metadata())

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

    def live_files(self, *states: Snapshot, all_snapshots: bool = False) -> set[str]:
        """What readers of these states need, by the tool's own rule: one snapshot each; or all that are listed."""
        live: set[str] = set()
        for state in states:
            live.add(state.metadata_location)
            for snapshot in self.snapshots if all_snapshots else [state]:
                live |= {m.path for m in snapshot.manifests}
                live |= {f.path for m in snapshot.manifests for f in _alive(m)}
                live |= set(snapshot.statistics)
                if snapshot.manifest_list is not None:
                    live.add(snapshot.manifest_list)
        return live

    def _data_uri(self, name: str) -> str:
        return name if ":/" in name else f"{self.location}/data/{name}"

    def _current_manifests(self) -> list[Manifest]:
        if not self.snapshots:
            return []
        # Deleted entries are carried by the snapshot that deleted them, and by no later one.
        return [m for m in self.snapshots[-1].manifests if any(_alive(m))]

    def _write_manifest(self, files: Sequence[DataFile]) -> Manifest:
        self_snapshot = len(self.snapshots) + len(self.metadata_files) + 1
        path = f"{self.location}/metadata/{uuid.uuid4()}-m0.avro"
        data = write_avro(
            manifest_schema(self.format_version),
            [self._entry(file, self_snapshot) for file in files],
            codec=self.codec,
            metadata={
                "format-version": str(self.format_version).encode(),
                "content": b"deletes" if any(f.content != DATA for f in files) else b"data",
                "schema": json.dumps(_SCHEMA).encode(),
                "schema-id": b"0",
                "partition-spec": b"[]",
                "partition-spec-id": b"0",
            },
        )
        self.write(path, data)
        return Manifest(path, len(data), tuple(files), self_snapshot, self._sequence + 1)

    def _entry(self, file: DataFile, snapshot_id: int) -> dict[str, Any]:
        data_file = {
            "content": file.content,
            "file_path": self.spelling(file.path),
            "file_format": "PARQUET",
            "partition": {},
            "record_count": 1,
            "file_size_in_bytes": 10,
            "block_size_in_bytes": 67108864,
            "equality_ids": [1] if file.content == EQUALITY_DELETES else None,
        }
        return {
            "status": file.status,
            "snapshot_id": snapshot_id,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": data_file,
        }

    def _commit(self, manifests: Sequence[Manifest]) -> Snapshot:
        self._sequence += 1
        snapshot_id = int(uuid.uuid4()) >> 66
        manifest_list = None
        if not self.embeds_manifests:
            manifest_list = self._write_manifest_list(manifests, snapshot_id)
        snapshot = Snapshot("", snapshot_id, manifest_list, tuple(manifests))
        self.snapshots.append(snapshot)
        self.snapshots[-1] = replace(snapshot, metadata_location=self._write_metadata())
        return self.snapshots[-1]

    def _write_manifest_list(self, manifests: Sequence[Manifest], snapshot_id: int) -> str:
        path = f"{self.location}/metadata/snap-{snapshot_id}-1-{uuid.uuid4()}.avro"
        rows = [self._manifest_row(manifest) for manifest in manifests]
        metadata = {
            "format-version": str(self.format_version).encode(),
            "snapshot-id": str(snapshot_id).encode(),
            "sequence-number": str(self._sequence).encode(),
        }
        data = write_avro(
            manifest_list_schema(self.format_version), rows, codec=self.codec, metadata=metadata
        )
        self.write(path, data)
        return path

    def _manifest_row(self, manifest: Manifest) -> dict[str, Any]:
        counts = {s: sum(f.status == s for f in manifest.files) for s in (ADDED, EXISTING, DELETED)}
        return {
            "manifest_path": self.spelling(manifest.path),
            "manifest_length": manifest.length,
            "partition_spec_id": 0,
            "content": int(manifest.is_of_deletes),
            "sequence_number": manifest.sequence,
            "min_sequence_number": manifest.sequence,
            "added_snapshot_id": manifest.snapshot_id,
            "added_files_count": counts[ADDED],
            "existing_files_count": counts[EXISTING],
            "deleted_files_count": counts[DELETED],
            "added_rows_count": counts[ADDED],
            "existing_rows_count": counts[EXISTING],
            "deleted_rows_count": counts[DELETED],
            "partitions": None,
        }

    def _write_metadata(self) -> str:
        number = len(self.metadata_files)
        suffix = ".gz.metadata.json" if self.is_metadata_compressed else ".metadata.json"
        path = f"{self.location}/metadata/{number:05d}-{uuid.uuid4()}{suffix}"
        data = json.dumps(self._metadata()).encode()
        self.write(path, gzip.compress(data) if self.is_metadata_compressed else data)
        self.metadata_files.append(path)
        return path

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "format-version": self.format_version,
            "table-uuid": self.table_uuid,
            "location": self.location,
            "last-updated-ms": 1_700_000_000_000 + self._sequence,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [_SCHEMA],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {},
            "snapshots": [self._snapshot_json(snapshot) for snapshot in self.snapshots],
            "snapshot-log": [],
            "metadata-log": [
                {"timestamp-ms": 1_700_000_000_000, "metadata-file": path}
                for path in self.metadata_files[-100:]
            ],
            "refs": {},
            "statistics": [
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
        }
        if self.format_version == 1:
            metadata |= {"schema": _SCHEMA, "partition-spec": []}
        else:
            metadata["last-sequence-number"] = self._sequence
        if self.format_version == 3:
            metadata["next-row-id"] = self._sequence
        if self.snapshots:
            newest = self.snapshots[-1].snapshot_id
            metadata["current-snapshot-id"] = newest
            metadata["refs"] = {"main": {"snapshot-id": newest, "type": "branch"}}
        return metadata

    def _snapshot_json(self, snapshot: Snapshot) -> dict[str, Any]:
        values: dict[str, Any] = {
            "snapshot-id": snapshot.snapshot_id,
            "timestamp-ms": 1_700_000_000_000,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if snapshot.manifest_list is None:
            values["manifests"] = [self.spelling(m.path) for m in snapshot.manifests]
        else:
            values["manifest-list"] = self.spelling(snapshot.manifest_list)
        if self.format_version > 1:
            values["sequence-number"] = 1 + self.snapshots.index(snapshot)
        if self.format_version == 3:
            values |= {"first-row-id": 0, "added-rows": 1}
        return values


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
        metadata = {
            "view-uuid": str(uuid.uuid4()),
            "format-version": 1,
            "location": self.location,
            "current-version-id": self.versions,
            "schemas": [_SCHEMA],
            "version-log": [],
            "versions": [],
        }
        self.write(path, json.dumps(metadata).encode())
        return Snapshot(path, self.versions)


def _alive(manifest: Manifest) -> Iterable[DataFile]:
    return (file for file in manifest.files if file.status != DELETED)


_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
