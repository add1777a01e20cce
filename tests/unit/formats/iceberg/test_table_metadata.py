"""Which files a table's metadata begins with, in versions 1, 2 and 3, and for views."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.iceberg.metadata import (
    LoggedMetadata,
    MetadataFiles,
    SnapshotFiles,
    files_of,
    read_table_metadata,
    read_view_metadata,
)
from lakesweep_testing.iceberg_files import table_metadata, view_metadata

LOCATION = "s3://lake/t"
LISTS = [{"snapshot-id": i, "manifest-list": f"{LOCATION}/metadata/snap-{i}.avro"} for i in (7, 8)]
NINE = {"snapshot-id": 9, "manifest-list": f"{LOCATION}/metadata/snap-9.avro"}
EMBEDDED = {"snapshot-id": 9, "manifests": [f"{LOCATION}/metadata/m{i}.avro" for i in (1, 2)]}
STATISTICS: dict[str, Any] = {
    "statistics": [
        {"snapshot-id": i, "statistics-path": f"{LOCATION}/metadata/{i}.stats", "blob-metadata": []}
        for i in (7, 8)
    ],
    "partition_statistics": [
        {"snapshot-id": 8, "statistics-path": f"{LOCATION}/metadata/8.parquet"}
    ],
}


def manifest_lists(files: MetadataFiles) -> tuple[str, ...]:
    return tuple(one.manifest_list for one in files.snapshots if one.manifest_list is not None)


def manifests(files: MetadataFiles) -> tuple[str, ...]:
    return tuple(path for one in files.snapshots for path in one.manifests)


@pytest.mark.parametrize("version", [2, 3])
def test_snapshots_name_their_manifest_lists(version: int) -> None:
    """With the statistics of each, and the metadata files of before."""
    log = [{"timestamp-ms": 1, "metadata-file": f"{LOCATION}/metadata/0.json"}]
    data = table_metadata(
        LOCATION, LISTS, version=version, current=8, metadata_log=log, **STATISTICS
    )
    metadata = read_table_metadata(data, "t")
    assert (metadata.format_version, metadata.location) == (version, LOCATION)
    assert metadata.uuid == "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    assert metadata.current_snapshot_id == 8
    assert metadata.snapshots == tuple(
        SnapshotFiles(one["snapshot-id"], one["manifest-list"]) for one in LISTS
    )
    assert metadata.metadata_log == (LoggedMetadata(f"{LOCATION}/metadata/0.json", 1),)
    assert metadata.statistics == (
        f"{LOCATION}/metadata/7.stats",
        f"{LOCATION}/metadata/8.stats",
        f"{LOCATION}/metadata/8.parquet",
    )


def test_version_1_may_embed_manifests_and_lack_an_id() -> None:
    """Long ago snapshots named their manifests one by one."""
    data = table_metadata(LOCATION, [LISTS[0], EMBEDDED], version=1, current=9)
    metadata = read_table_metadata(data, "t")
    assert metadata.uuid is None
    assert manifests(files_of(metadata, -1)) == tuple(EMBEDDED["manifests"])
    assert manifest_lists(files_of(metadata, 7)) == (LISTS[0]["manifest-list"],)


def test_a_list_beside_embedded_manifests_is_all_that_counts() -> None:
    """As Iceberg reads it."""
    both = {**EMBEDDED, "manifest-list": "s3://lake/t/metadata/l.avro"}
    metadata = read_table_metadata(table_metadata(LOCATION, [both], version=1), "t")
    assert manifest_lists(files_of(metadata, 9)) == ("s3://lake/t/metadata/l.avro",)


def test_the_named_and_the_current_snapshot_are_live_and_all_statistics() -> None:
    """Readers ask for either of the two; statistics of an older snapshot are read with it."""
    data = table_metadata(LOCATION, [*LISTS, NINE], current=8, **STATISTICS)
    metadata = read_table_metadata(data, "t")
    seven, eight = (f"{LOCATION}/metadata/snap-{id_}.avro" for id_ in (7, 8))
    assert manifest_lists(files_of(metadata, 7)) == (seven, eight)
    assert files_of(metadata, -1) == files_of(metadata, 8)
    assert files_of(metadata, 8) == MetadataFiles((SnapshotFiles(8, eight),))
    named = ("7.stats", "8.stats", "8.parquet")
    assert metadata.statistics == tuple(f"{LOCATION}/metadata/{name}" for name in named)


def test_snapshots_of_the_tables_own_branches_and_tags_are_live() -> None:
    """`VERSION AS OF 'audit'` reads them. One that is not listed can't be read by anybody, and makes nothing doubtful."""
    refs = {
        "main": {"snapshot-id": 8, "type": "branch"},
        "audit": {"snapshot-id": 9, "type": "branch", "max-ref-age-ms": 1},
        "lost": {"snapshot-id": 404, "type": "tag"},
    }
    data = table_metadata(LOCATION, [*LISTS, NINE], current=8, refs=refs)
    files = files_of(read_table_metadata(data, "t"), 8)
    eight, nine = (f"{LOCATION}/metadata/snap-{id_}.avro" for id_ in (8, 9))
    assert manifest_lists(files) == (eight, nine)
    assert not files.is_doubtful


@pytest.mark.parametrize(("snapshot_id", "current"), [(404, 8), (0, 8), (7, 404), (-1, None)])
def test_where_a_snapshot_is_not_listed_every_listed_one_is_live(
    snapshot_id: int, current: int | None
) -> None:
    """0 is protobuf's default: a table whose content says 0 is read by its metadata, and must not lose its files."""
    metadata = read_table_metadata(table_metadata(LOCATION, LISTS, current=current), "t")
    files = files_of(metadata, snapshot_id)
    assert manifest_lists(files) == tuple(one["manifest-list"] for one in LISTS)
    assert files.is_doubtful


def test_all_snapshots_may_be_kept() -> None:
    """Every snapshot that the metadata still lists, whatever the content names."""
    data = table_metadata(LOCATION, [*LISTS, EMBEDDED], version=1, current=8, **STATISTICS)
    metadata = read_table_metadata(data, "t")
    files = files_of(metadata, 404, all_snapshots=True)
    assert manifest_lists(files) == tuple(one["manifest-list"] for one in LISTS)
    assert manifests(files) == tuple(EMBEDDED["manifests"])
    assert len(metadata.statistics) == 3


def test_a_table_without_snapshots_has_only_its_metadata() -> None:
    """-1, null and no field at all mean no current snapshot."""
    for current in (-1, None):
        data = table_metadata(LOCATION, current_snapshot_id=current, snapshots=None)
        metadata = read_table_metadata(data, "t")
        assert metadata.current_snapshot_id is None
        assert files_of(metadata, -1) == MetadataFiles()


def test_a_current_snapshot_that_is_not_listed_is_doubt() -> None:
    """What the table holds now can't be told."""
    metadata = read_table_metadata(table_metadata(LOCATION, LISTS, current=6), "t")
    with pytest.raises(FormatError, match="current snapshot 6"):
        files_of(metadata, -1)


def test_gzipped_metadata_is_known_by_its_first_bytes() -> None:
    """Also in two members."""
    data = table_metadata(LOCATION, LISTS, current=8)
    expected = read_table_metadata(data, "t")
    assert read_table_metadata(gzip.compress(data), "t") == expected
    assert read_table_metadata(gzip.compress(data[:99]) + gzip.compress(data[99:]), "t") == expected


def test_a_view_has_an_id_and_a_place() -> None:
    """And no further files."""
    view = read_view_metadata(gzip.compress(view_metadata("s3://lake/v")), "v")
    assert (view.uuid, view.location) == ("9c12d441-03fe-4693-9a96-a0705ddf69c1", "s3://lake/v")


def test_a_view_of_the_draft_has_a_place_and_no_id() -> None:
    """Dremio writes views as an early draft of the specification has them."""
    fields = json.loads(view_metadata("s3://lake/v"))
    del fields["view-uuid"], fields["schemas"]
    view = read_view_metadata(json.dumps({**fields, "properties": {}}).encode(), "v")
    assert (view.uuid, view.location) == (None, "s3://lake/v")


def test_tables_and_views_are_not_taken_for_each_other() -> None:
    """A view read as a table would be a table without files."""
    with pytest.raises(FormatError, match="not the metadata of a table"):
        read_table_metadata(view_metadata("s3://lake/v"), "v")
    with pytest.raises(FormatError, match="not the metadata of a view"):
        read_view_metadata(table_metadata(LOCATION, version=1), "t")
    with pytest.raises(FormatError, match="not known for views"):
        read_view_metadata(table_metadata(LOCATION), "t")


def changed(**fields: Any) -> bytes:
    return table_metadata(LOCATION, LISTS, **fields)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (changed()[:-1], "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "format-version"),
        (gzip.compress(changed())[:-9], "cut short"),
        (gzip.compress(changed()) + b"x", "cut short"),
        (b"\x1f\x8b" + bytes(20), "damaged"),
        (changed(format_version=4), "version 4 is not known"),
        (changed(format_version=0), "version 0 is not known"),
        (changed(format_version="2"), "format-version"),
        (changed(format_version=True), "format-version"),
        (changed(table_uuid=None), "table-uuid"),
        (changed(location=None), "location"),
        (changed(location=""), "location"),
        (changed(location=5), "location"),
        (changed(last_column_id=None), "not the metadata of a table"),
        (changed(current_snapshot_id="7"), "current-snapshot-id"),
        (changed(current_snapshot_id=1.5), "current-snapshot-id"),
        (changed(current_snapshot_id=1 << 63), "64 bits"),
        (changed(snapshots={}), "snapshots"),
        (changed(snapshots=[5]), "snapshots"),
        (changed(snapshots=[{}]), "snapshot-id"),
        (changed(snapshots=[{"snapshot-id": 1}]), "names no manifests"),
        (changed(snapshots=[{"snapshot-id": 1, "manifest-list": ""}]), "manifest-list"),
        (changed(snapshots=[{"snapshot-id": 1, "manifest-list": 5}]), "manifest-list"),
        (changed(snapshots=[{"snapshot-id": 1, "manifests": "x"}]), "manifests"),
        (changed(snapshots=[{"snapshot-id": 1, "manifests": [None]}]), "manifests"),
        (changed(snapshots=[LISTS[0], LISTS[0]]), "two snapshots of one id"),
        (changed(statistics=[{"snapshot-id": 1}]), "statistics-path"),
        (changed(partition_statistics=[{"snapshot-id": 1}]), "statistics-path"),
        (changed(metadata_log=[{}]), "metadata-file"),
        (changed(refs="?"), "refs"),
        (changed(refs={"audit": 9}), "refs"),
        (changed(refs={"audit": {}}), "snapshot-id"),
    ],
)
def test_metadata_of_another_shape_is_doubt(data: bytes, why: str) -> None:
    """With the file's name, and what was not done."""
    with pytest.raises(FormatError) as caught:
        read_table_metadata(data, "s3://lake/t/metadata/1.json")
    assert why in caught.value.message
    assert caught.value.message.startswith("s3://lake/t/metadata/1.json can't be read")
    assert "Nothing was deleted" in caught.value.message


def test_fields_that_are_not_needed_may_be_anything() -> None:
    """What a later writer adds does not stop a run."""
    data = changed(encryption_keys=[1], row_lineage="?", sort_orders=None)
    assert read_table_metadata(data, "t").snapshots
    assert json.loads(data)["row-lineage"] == "?"


def test_json_that_only_the_slow_parser_knows_is_read_all_the_same() -> None:
    """With a mark of its encoding, in another one, nested deep, or with half of a character in a text."""
    plain = changed(doc="?")
    expected = read_table_metadata(plain, "t")
    deep = plain.replace(b'"?"', b"[" * 300 + b"]" * 300)
    half = plain.replace(b'"?"', rb'"\ud83d"')
    for data in (b"\xef\xbb\xbf" + plain, plain.decode().encode("utf-16"), deep, half):
        assert read_table_metadata(data, "t") == expected
