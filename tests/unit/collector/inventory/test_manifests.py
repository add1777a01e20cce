"""Where the files of an inventory lie, whose it is, and what a manifest must say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.collector.inventory.azure import azure_inventory
from lakesweep.collector.inventory.gcs import gcs_inventory
from lakesweep.collector.inventory.s3 import s3_inventory
from lakesweep.collector.inventory.values import Manifest
from lakesweep.domain.location import Location
from lakesweep.errors import FormatError, UnsafeToSweepError

S3: dict[str, Any] = {
    "sourceBucket": "lake",
    "destinationBucket": "arn:aws:s3:::inventories",
    "version": "2016-11-30",
    "creationTimestamp": "1514944800000",
    "fileFormat": "CSV",
    "fileSchema": "Bucket, Key, Size, LastModifiedDate",
    "files": [{"key": "x/lake/daily/data/1.csv.gz", "size": 9, "MD5checksum": "F1"}],
}
AZURE: dict[str, Any] = {
    "destinationContainer": "inventories",
    "endpoint": "https://account.blob.core.windows.net",
    "files": [{"blob": "2021/05/26/13-25-36/rule/rule.csv", "size": 12}],
    "inventoryStartTime": "2021-05-26T13:25:36Z",
    "ruleDefinition": {"format": "csv", "objectType": "blob", "filters": {"prefixMatch": ["lake"]}},
    "status": "Succeeded",
}
GCS: dict[str, Any] = {
    "report_config": {"csvOptions": {"delimiter": ";", "headerRequired": False}},
    "records_processed": 5,
    "snapshot_time": "2024-05-01T00:00:00Z",
    "shard_count": 1,
    "report_shards_file_names": ["8e11_2024-05-01T00:00_0.csv"],
}
BLOBS = Location.parse("https://account.blob.core.windows.net/lake/repo")
BUCKET = Location.parse("gs://lake/repo")


def manifest(
    values: dict[str, Any], uri: str = "s3://inventories/x/lake/daily/d/manifest.json"
) -> Manifest:
    return Manifest(Location.parse(uri), values)


def test_files_of_s3_lie_in_the_destination_bucket() -> None:
    """By their whole keys."""
    inventory = s3_inventory(manifest(S3))
    (file,) = inventory.files
    assert str(file) == "s3://inventories/x/lake/daily/data/1.csv.gz"
    assert (file.size, file.md5) == (9, "f1")
    assert inventory.taken_at == datetime(2018, 1, 3, 2, tzinfo=UTC)
    assert inventory.layout.columns == ("Bucket", "Key", "Size", "LastModifiedDate")


@pytest.mark.parametrize("folder", ["s3://copies/a", "file:///tmp/a"])
def test_files_of_a_copied_inventory_lie_beside_its_manifest(folder: str) -> None:
    """They keep their places below the configuration's folder."""
    (file,) = s3_inventory(manifest(S3, f"{folder}/2018-01-03T02-00Z/manifest.json")).files
    assert str(file) == f"{folder}/data/1.csv.gz"


@pytest.mark.parametrize(
    "change",
    [
        {"fileFormat": "Avro"},
        {"creationTimestamp": "yesterday"},
        {"creationTimestamp": "9" * 15},
        {"sourceBucket": ""},
        {"files": None},
        {"files": [{"key": "a", "size": 1}]},
        {"files": [{"key": "a", "size": "1", "MD5checksum": "x"}]},
        {"files": ["a"]},
        {"files": [{"key": "data/../../x", "size": 1, "MD5checksum": "x"}]},
    ],
)
def test_a_manifest_of_s3_that_is_not_understood_is_an_error(change: dict[str, Any]) -> None:
    """Nothing of it is guessed."""
    with pytest.raises(FormatError) as error:
        s3_inventory(manifest(S3 | change))
    assert error.value.kind == "bad-inventory"


def test_an_azure_inventory_of_another_account_is_refused() -> None:
    """The container may have the same name there."""
    uri = "https://account.blob.core.windows.net/inventories/2021/rule/rule-manifest.json"
    inventory = azure_inventory(manifest(AZURE, uri), BLOBS)
    assert str(inventory.files[0]) == uri.replace("rule-manifest.json", "rule.csv")
    assert inventory.filters == "prefixMatch lake"
    other = AZURE | {"endpoint": "https://other.blob.core.windows.net"}
    with pytest.raises(UnsafeToSweepError) as error:
        azure_inventory(manifest(other, uri), BLOBS)
    assert error.value.kind == "inventory-elsewhere"


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "nowhere"},
        {"inventoryStartTime": "?"},
        {"ruleDefinition": []},
        {"ruleDefinition": AZURE["ruleDefinition"] | {"format": "orc"}},
        {"ruleDefinition": AZURE["ruleDefinition"] | {"objectType": "container"}},
        {"ruleDefinition": AZURE["ruleDefinition"] | {"filters": [1]}},
        {"files": [{"blob": "x"}]},
        {"files": [{"blob": "x/..", "size": 1}]},
    ],
)
def test_a_manifest_of_azure_that_is_not_understood_is_an_error(change: dict[str, Any]) -> None:
    """Nothing of it is guessed."""
    with pytest.raises(FormatError) as error:
        azure_inventory(manifest(AZURE | change), BLOBS)
    assert error.value.kind == "bad-inventory"


def test_a_report_without_a_header_names_its_columns() -> None:
    """In the manifest, in either spelling of Google's API."""
    uri = "gs://reports/a/8e11_2024-05-01T00:00_manifest.json"
    fields = ["bucket", "name", "size", "updated"]
    config = GCS["report_config"] | {"objectMetadataReportOptions": {"metadataFields": fields}}
    inventory = gcs_inventory(manifest(GCS | {"report_config": config}, uri), BUCKET)
    assert inventory.layout.columns == tuple(fields)
    assert inventory.layout.delimiter == ";"
    assert str(inventory.files[0]) == "gs://reports/a/8e11_2024-05-01T00:00_0.csv"
    with pytest.raises(FormatError, match="no header"):
        gcs_inventory(manifest(GCS, uri), BUCKET)


@pytest.mark.parametrize(
    "change",
    [
        {"snapshot_time": None},
        {"report_shards_file_names": "x.csv"},
        {"report_shards_file_names": ["x.avro"]},
        {"report_shards_file_names": ["x\n.csv"]},
    ],
)
def test_a_manifest_of_google_that_is_not_understood_is_an_error(change: dict[str, Any]) -> None:
    """Nothing of it is guessed."""
    with pytest.raises(FormatError) as error:
        gcs_inventory(manifest(GCS | change), BUCKET)
    assert error.value.kind == "bad-inventory"
