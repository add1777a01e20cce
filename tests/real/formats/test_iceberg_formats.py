"""Our readers against pyiceberg's own: tables that it writes, and files of ours that it reads."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.manifest import read_manifest_list as their_manifest_list
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakesweep.formats.iceberg.manifests import Promised, read_manifest, read_manifest_list
from lakesweep.formats.iceberg.metadata import read_table_metadata
from lakesweep_testing.iceberg_files import (
    ADDED,
    DELETED,
    EXISTING,
    Entry,
    ListedManifest,
    table_metadata,
    write_manifest,
    write_manifest_list,
)

pytestmark = pytest.mark.real

SCHEMA = Schema(
    NestedField(1, "day", StringType(), required=False),
    NestedField(2, "id", LongType(), required=False),
    NestedField(3, "value", DoubleType(), required=False),
)
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))


def rows(start: int, count: int) -> pa.Table:
    return pa.table(
        {
            "day": [f"2026-01-{1 + i % 3:02}" for i in range(start, start + count)],
            "id": pa.array(range(start, start + count), pa.int64()),
            "value": [i / 2 for i in range(start, start + count)],
        }
    )


def read(uri: str) -> bytes:
    return Path(uri.removeprefix("file://")).read_bytes()


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake"
    )
    catalog.create_namespace("db")
    return catalog


def changed_table(catalog: SqlCatalog, spec: PartitionSpec, **properties: str) -> Table:
    """A table with appends, an overwrite and a delete that rewrites files."""
    table = catalog.create_table(
        f"db.t{uuid.uuid4().hex}", SCHEMA, partition_spec=spec, properties=properties
    )
    for start in range(0, 60, 20):
        table.append(rows(start, 20))
    table.overwrite(rows(100, 10), overwrite_filter="day = '2026-01-02'")
    table.delete("id < 5")
    return table


def assert_read_alike(table: Table) -> None:
    """Every snapshot names the same lists, manifests and files for both."""
    metadata = read_table_metadata(read(table.metadata_location), table.metadata_location)
    theirs = table.metadata
    assert metadata.format_version == theirs.format_version
    assert metadata.uuid in (
        None,
        str(theirs.table_uuid),
    )  # version 1 may lack it; pyiceberg makes one up
    assert metadata.location == theirs.location
    assert metadata.current_snapshot_id == theirs.current_snapshot_id
    assert metadata.metadata_log == tuple(
        (one.metadata_file, one.timestamp_ms) for one in theirs.metadata_log
    )
    assert [one.snapshot_id for one in metadata.snapshots] == [
        one.snapshot_id for one in theirs.snapshots
    ]
    for snapshot in theirs.snapshots:
        named = metadata.snapshot(snapshot.snapshot_id)
        assert named is not None
        assert named.manifest_list == snapshot.manifest_list
        ours = read_manifest_list(read(snapshot.manifest_list), snapshot.manifest_list)
        manifests = snapshot.manifests(table.io)
        assert ours.paths == [one.manifest_path for one in manifests]
        assert ours.live_entries is not None
        assert named.total_files in (None, ours.live_entries)
        for manifest, promised in zip(manifests, ours.promised, strict=True):
            data = read(manifest.manifest_path)
            assert len(data) == promised.length
            assert_entries_alike(manifest, data, promised)


def assert_entries_alike(manifest: ManifestFile, data: bytes, promised: Promised) -> None:
    entries = manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=True)
    found = read_manifest(data, manifest.manifest_path, promised)
    assert promised.entries == found.entries
    assert found.files.to_pylist() == [entry.data_file.file_path for entry in entries]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("spec", [PartitionSpec(), SPEC], ids=["plain", "partitioned"])
@pytest.mark.parametrize("codec", ["gzip", "zstd", "bzip2", "null"])
def test_tables_of_pyiceberg_read_alike(
    catalog: SqlCatalog, spec: PartitionSpec, version: str, codec: str
) -> None:
    """Appends, overwrites and deletes; with and without partitions; every codec that it writes without further packages."""
    properties = {"format-version": version, "write.avro.compression-codec": codec}
    assert_read_alike(changed_table(catalog, spec, **properties))


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_what_our_writer_writes(tmp_path: Path, version: int) -> None:
    """So what tests prove with our own files holds for Iceberg's."""
    folder = f"file://{tmp_path}"
    entries = [
        Entry(f"{folder}/a", ADDED),
        Entry(f"{folder}/b", DELETED),
        Entry(f"{folder}/c", EXISTING),
    ]
    deletes = [Entry(f"{folder}/d", content=1), Entry(f"{folder}/e", content=2)]
    listed = []
    for number, group in enumerate([entries, deletes] if version > 1 else [entries]):
        data = write_manifest(group, version=version)
        (tmp_path / f"m{number}").write_bytes(data)
        counts: dict[str, Any] = {
            name: sum(entry.status == status for entry in group)
            for name, status in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))
        }
        path = f"{folder}/m{number}"
        listed.append(ListedManifest(path, len(data), is_deletes=number == 1, **counts))
    data = write_manifest_list(listed, version=version)
    (tmp_path / "list").write_bytes(data)
    io = PyArrowFileIO()
    theirs = list(their_manifest_list(io.new_input(f"{folder}/list")))
    ours = read_manifest_list(data, "list")
    assert [one.manifest_path for one in theirs] == ours.paths == [one.path for one in listed]
    for manifest, promised in zip(theirs, ours.promised, strict=True):
        assert_entries_alike(manifest, read(manifest.manifest_path), promised)

    snapshot = {"snapshot-id": 7, "manifest-list": f"{folder}/list"}
    metadata = table_metadata(folder, [snapshot], version=version, current=7)
    (tmp_path / "v1.metadata.json").write_bytes(metadata)
    assert_read_alike(StaticTable.from_metadata(f"{folder}/v1.metadata.json"))


def test_statistics_of_a_snapshot_are_named(catalog: SqlCatalog) -> None:
    """Statistics files are named by the metadata with their snapshot."""
    table = changed_table(catalog, PartitionSpec())
    current = table.metadata.current_snapshot_id
    assert current is not None
    with table.update_statistics() as update:
        update.set_statistics(
            StatisticsFile(
                snapshot_id=current,
                statistics_path=f"{table.location()}/metadata/1.stats",
                file_size_in_bytes=1,
                file_footer_size_in_bytes=1,
                blob_metadata=[],
            )
        )
    metadata = read_table_metadata(read(table.metadata_location), "table")
    assert metadata.statistics == (f"{table.location()}/metadata/1.stats",)
    assert_read_alike(table)
