"""Iceberg tables for benchmarks, written straight and from a seed, as pyiceberg and Spark read them.

Data files hold a few bytes, as no collector opens them. Each metadata file lists all snapshots that its table has had,
as it does where nobody expires them.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakesweep_testing.iceberg_files import (
    ADDED,
    DELETED,
    Entry,
    ListedManifest,
    write_manifest,
    write_manifest_list,
)

_DAYS_OLD = 10  # past any grace period
_FIRST_MS = 1_700_000_000_000
_MOST_LOGGED = 100  # metadata files that the next one names


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest and the files in it."""

    path: str
    length: int
    files: tuple[str, ...]
    is_of_deleted: bool = False  # all its entries are files that a rewrite took out

    @property
    def live_files(self) -> tuple[str, ...]:
        return () if self.is_of_deleted else self.files


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as one commit left it."""

    name: str
    metadata_location: str = ""
    snapshot_id: int = -1
    manifest_list: str = ""
    manifests: tuple[Manifest, ...] = ()
    snapshots: tuple[str, ...] = ()  # all it has had, as JSON, the oldest first
    earlier: tuple[str, ...] = ()  # metadata files before this one

    @property
    def live_files(self) -> Iterator[str]:
        """What a reader of this state needs."""
        yield self.metadata_location
        yield self.manifest_list
        for manifest in self.manifests:
            yield manifest.path
            yield from manifest.live_files


class TableWriter:
    """Writes the files of tables below one folder, all dated back, and remembers them."""

    def __init__(self, folder: Path, names: Sequence[str], seed: int) -> None:
        self.written: set[str] = set()
        self._folder = folder
        self._random = random.Random(seed)
        at = time.time_ns() - _DAYS_OLD * 24 * 3600 * 10**9
        self._times = (at, at)
        for name in names:
            for kind in ("data", "metadata"):
                (folder / name / kind).mkdir(parents=True)

    def append(self, before: TableState, files: int = 1) -> TableState:
        """Add data files in a manifest of their own: three files, and those."""
        snapshot_id = self._random.getrandbits(62)
        added = self._write_manifest(before.name, snapshot_id, self._write_data(before.name, files))
        # Deleted entries are told of by the snapshot that deleted them, and by no later one.
        carried = (manifest for manifest in before.manifests if not manifest.is_of_deleted)
        return self._commit(before, snapshot_id, (*carried, added))

    def rewrite(self, before: TableState) -> TableState:
        """Replace all data files by one: five files."""
        snapshot_id = self._random.getrandbits(62)
        name = before.name
        old = tuple(path for manifest in before.manifests for path in manifest.live_files)
        manifests = (
            self._write_manifest(name, snapshot_id, self._write_data(name, 1)),
            self._write_manifest(name, snapshot_id, old, is_of_deleted=True),
        )
        return self._commit(before, snapshot_id, manifests)

    def write_orphan(self, name: str, *, is_data: bool) -> str:
        """A file that no metadata knows, as a writer that failed leaves it behind."""
        kind, ending = ("data", ".parquet") if is_data else ("metadata", "-m0.avro")
        return self._write(f"{name}/{kind}/{self._unique()}{ending}", b"left behind")

    def _commit(
        self, before: TableState, snapshot_id: int, manifests: tuple[Manifest, ...]
    ) -> TableState:
        name = before.name
        manifest_list = self._write_list(name, snapshot_id, manifests)
        files = sum(len(list(manifest.live_files)) for manifest in manifests)
        newest = _snapshot_json(len(before.snapshots), snapshot_id, manifest_list, files)
        snapshots = (*before.snapshots, newest)
        earlier = before.earlier
        if before.metadata_location:
            earlier = (*earlier, before.metadata_location)[-_MOST_LOGGED:]
        return TableState(
            name=name,
            metadata_location=self._write_metadata(name, snapshot_id, snapshots, earlier),
            snapshot_id=snapshot_id,
            manifest_list=manifest_list,
            manifests=manifests,
            snapshots=snapshots,
            earlier=earlier,
        )

    def _write_data(self, name: str, files: int) -> tuple[str, ...]:
        return tuple(
            self._write(f"{name}/data/00000-0-{self._unique()}.parquet", b"PAR1 a few rows PAR1")
            for _ in range(files)
        )

    def _write_manifest(
        self, name: str, snapshot_id: int, files: tuple[str, ...], *, is_of_deleted: bool = False
    ) -> Manifest:
        status = DELETED if is_of_deleted else ADDED
        data = write_manifest([Entry(path, status) for path in files], snapshot_id=snapshot_id)
        path = self._write(f"{name}/metadata/{self._unique()}-m0.avro", data)
        return Manifest(path, len(data), files, is_of_deleted)

    def _write_list(self, name: str, snapshot_id: int, manifests: Sequence[Manifest]) -> str:
        rows = [
            ListedManifest(
                one.path,
                one.length,
                added=0 if one.is_of_deleted else len(one.files),
                deleted=len(one.files) if one.is_of_deleted else 0,
            )
            for one in manifests
        ]
        return self._write(
            f"{name}/metadata/snap-{snapshot_id}-1-{self._unique()}.avro",
            write_manifest_list(rows, snapshot_id=snapshot_id),
        )

    def _write_metadata(
        self, name: str, snapshot_id: int, snapshots: Sequence[str], earlier: Sequence[str]
    ) -> str:
        fields = {
            "format-version": 2,
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
            "location": self._uri(name),
            "last-sequence-number": len(snapshots),
            "last-updated-ms": _FIRST_MS + len(snapshots),
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [_SCHEMA],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {"write.parquet.compression-codec": "zstd"},
            "current-snapshot-id": snapshot_id,
            "refs": {"main": {"snapshot-id": snapshot_id, "type": "branch"}},
            "statistics": [],
            "partition-statistics": [],
            "metadata-log": [
                {"timestamp-ms": _FIRST_MS, "metadata-file": path} for path in earlier
            ],
        }
        # Snapshots are rendered once: a table's last metadata file has as many of them as it has had commits.
        text = f'{json.dumps(fields)[:-1]}, "snapshots": [{", ".join(snapshots)}]}}'
        version = f"{len(snapshots):05d}-{self._unique()}"
        return self._write(f"{name}/metadata/{version}.metadata.json", text.encode())

    def _write(self, name: str, data: bytes) -> str:
        path = f"{self._folder}/{name}"
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=self._times)
        uri = self._uri(name)
        self.written.add(uri)
        return uri

    def _uri(self, name: str) -> str:
        return f"file://{self._folder}/{name}"

    def _unique(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def _snapshot_json(number: int, snapshot_id: int, manifest_list: str, files: int) -> str:
    """A snapshot with a summary as long as Spark's."""
    counts = (
        *("added-data-files", "added-records", "added-files-size", "changed-partition-count"),
        *("total-records", "total-files-size", "total-position-deletes", "total-equality-deletes"),
    )
    fields = {
        "sequence-number": number + 1,
        "snapshot-id": snapshot_id,
        "timestamp-ms": _FIRST_MS + number,
        "summary": {
            "operation": "append",
            "spark.app.id": "local-1700000000000",
            **{name: str(1000 + number) for name in counts},
            # The collector counts these after.
            **{"total-data-files": str(files), "total-delete-files": "0"},
            "engine-name": "spark",
            "engine-version": "3.5.6",
            "app-id": "local-1700000000000",
            "iceberg-version": "Apache Iceberg 1.9.2",
        },
        "manifest-list": manifest_list,
        "schema-id": 0,
    }
    return json.dumps(fields)


_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}
