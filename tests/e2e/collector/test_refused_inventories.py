"""Inventories that must not be believed: cut short, of another place, of versions, of another time. Nothing is deleted."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.errors import ConfigError, LakesweepError, UnsafeToSweepError
from lakesweep_testing.inventories import FORMATS, Row, WrittenInventory, by, rows_of, taken
from lakesweep_testing.scene import Scene

MakeScene = Callable[..., Scene]
WITH_MANIFEST = [kind for kind in FORMATS if kind != "plain"]
S3 = [kind for kind in FORMATS if kind.startswith("s3")]


def refused(scene: Scene, inventory: WrittenInventory | str, **more: object) -> LakesweepError:
    """The error of a collection by this inventory, after which nothing is gone."""
    with pytest.raises(LakesweepError) as error:
        scene.gc(by(inventory, **more))
    assert len(scene.left()) == len(scene.garbage)
    scene.assert_nothing_else_gone()
    return error.value


@pytest.mark.parametrize("kind", WITH_MANIFEST)
def test_an_inventory_without_one_of_its_files_is_refused(scene: Scene, kind: str) -> None:
    """Half an inventory is a doubt, also where it would only find less."""
    inventory = taken(scene, kind)
    inventory.remove(inventory.files[1])
    assert refused(scene, inventory).kind == "inventory-incomplete"


@pytest.mark.parametrize("kind", S3)
def test_a_file_with_another_sum_than_promised_is_refused(scene: Scene, kind: str) -> None:
    """Of the right size, and other bytes."""
    inventory = taken(scene, kind)
    data = bytearray(inventory.read(inventory.files[0]))
    data[len(data) // 2] ^= 1
    inventory.write(inventory.files[0], bytes(data))
    error = refused(scene, inventory)
    assert error.kind == "inventory-incomplete"
    assert "MD5" in error.message


@pytest.mark.parametrize("kind", ["s3-csv", "azure-csv", "azure-parquet"])
def test_a_file_of_another_size_than_promised_is_refused(scene: Scene, kind: str) -> None:
    """It was cut short, or something was added."""
    inventory = taken(scene, kind)
    inventory.write(inventory.files[0], inventory.read(inventory.files[0])[:-20])
    error = refused(scene, inventory)
    assert error.kind == "inventory-incomplete"
    assert "bytes" in error.message


@pytest.mark.parametrize("kind", ["gcs-csv", "gcs-parquet"])
def test_fewer_rows_than_promised_are_refused(scene: Scene, kind: str) -> None:
    """Google's manifest says how many there must be, and nothing of the size of a shard."""
    inventory = taken(scene, kind)
    inventory.change_manifest(records_processed=len(rows_of(scene.name)) + 1)
    assert refused(scene, inventory).kind == "inventory-incomplete"


def test_fewer_shards_than_promised_are_refused(scene: Scene) -> None:
    """Google's manifest counts them."""
    inventory = taken(scene, "gcs-parquet")
    inventory.change_manifest(shard_count=3)
    assert refused(scene, inventory).kind == "inventory-incomplete"


@pytest.mark.parametrize("kind", ["s3-parquet", "azure-csv"])
def test_a_manifest_whose_sum_is_another_is_refused(scene: Scene, kind: str) -> None:
    """Its checksum file tells."""
    inventory = taken(scene, kind)
    inventory.write(inventory.manifest, inventory.read(inventory.manifest) + b" ")
    error = refused(scene, inventory)
    assert error.kind == "inventory-incomplete"
    assert "checksum" in error.message


def test_a_run_of_a_rule_that_has_not_succeeded_is_refused(scene: Scene) -> None:
    """Azure writes the manifest when a run begins."""
    inventory = taken(scene, "azure-parquet")
    inventory.change_manifest(status="Pending")
    assert refused(scene, inventory).kind == "inventory-incomplete"


@pytest.mark.parametrize("kind", S3)
def test_an_inventory_of_another_bucket_is_refused(scene: Scene, kind: str) -> None:
    """The manifest names the bucket, and the keys may look alike."""
    inventory = taken(scene, kind)
    inventory.change_manifest(sourceBucket="another")
    error = refused(scene, inventory)
    assert error.kind == "inventory-elsewhere"
    assert "another" in error.message


@pytest.mark.parametrize("kind", [*S3, "gcs-csv", "gcs-parquet"])
def test_rows_of_another_bucket_are_refused(scene: Scene, kind: str) -> None:
    """A row that names another bucket than the repository's is somebody else's."""
    rows = [replace(row, bucket="another") for row in rows_of(scene.name)]
    assert refused(scene, taken(scene, kind, rows)).kind == "inventory-elsewhere"


@pytest.mark.parametrize("kind", FORMATS)
def test_an_inventory_of_another_prefix_is_refused(scene: Scene, kind: str) -> None:
    """Nothing in it lies in the namespace, so it says nothing of the repository."""
    rows = [replace(row, key=f"other/{row.key}") for row in rows_of(scene.name)]
    error = refused(scene, taken(scene, kind, rows))
    assert error.kind == "inventory-elsewhere"
    assert f"mem://{scene.name}/ns" in error.message


def versions_of(scene: Scene, *, is_latest: bool = True) -> list[Row]:
    """Two versions of everything, of which the older is another object; and a delete marker over one garbage."""
    rows = rows_of(scene.name)
    old = [
        replace(r, version="1", is_latest=False, size=r.size + 1, at=r.at - timedelta(days=9))
        for r in rows
    ]
    new = [replace(row, version="2", is_latest=True) for row in rows]
    marked = f"ns/{scene.garbage['orphan-0']}"
    new = [replace(r, is_deleted=r.key == marked) for r in new]
    if not is_latest:
        return [replace(row, is_latest=None) for row in (*old, *new)]
    return [*old, *new]


@pytest.mark.parametrize("kind", ["s3-parquet", "s3-orc"])
def test_of_versions_only_the_latest_count(scene: Scene, kind: str) -> None:
    """Old versions and delete markers are passed over."""
    rows = versions_of(scene)
    record = scene.gc(by(taken(scene, kind, rows)))
    assert scene.left() == {"orphan-0"}
    scene.assert_nothing_else_gone()
    assert record.inventory["rows_not_current"] == len(rows) // 2 + 1


def test_versions_of_which_nobody_knows_the_latest_are_refused(scene: Scene) -> None:
    """An old version has a size and a time of its own."""
    error = refused(scene, taken(scene, rows=versions_of(scene, is_latest=False)))
    assert error.kind == "inventory-versions"


@pytest.mark.parametrize("switch", ["includeBlobVersions", "includeSnapshots", "includeDeleted"])
def test_an_azure_rule_with_more_than_blobs_must_tell_them_apart(scene: Scene, switch: str) -> None:
    """Else a snapshot looks like its blob."""
    inventory = taken(scene, "azure-csv")
    rule = json.loads(inventory.read(inventory.manifest))["ruleDefinition"]
    rule["filters"][switch] = True
    inventory.change_manifest(ruleDefinition=rule)
    error = refused(scene, inventory)
    assert error.kind == "bad-inventory"
    assert "lacks a column" in error.message


def test_a_key_that_comes_twice_is_refused(scene: Scene) -> None:
    """Two rows may tell two sizes or times."""
    rows = rows_of(scene.name)
    again = next(row for row in rows if row.key == f"ns/{scene.garbage['orphan-0']}")
    assert refused(scene, taken(scene, rows=[*rows, again])).kind == "inventory-duplicates"


def test_an_inventory_from_the_future_is_refused(scene: Scene) -> None:
    """Its time is wrong, so what else is?"""
    inventory = taken(scene)
    later = scene.lake.clock.now + timedelta(minutes=30)
    inventory.change_manifest(creationTimestamp=str(int(later.timestamp() * 1000)))
    assert refused(scene, inventory).kind == "inventory-from-the-future"


def test_an_inventory_of_long_ago_is_refused_unless_asked_for(make_scene: MakeScene) -> None:
    """It would find little, and look up what is gone."""
    scene = make_scene()
    inventory = taken(scene)
    scene.keep_as_is()
    scene.lake.clock.advance(timedelta(days=15))
    assert refused(scene, inventory).kind == "inventory-too-old"
    record = scene.mark(by(inventory, max_inventory_age=timedelta(days=16)))
    assert record.objects["garbage"] >= len(scene.garbage)


@pytest.mark.parametrize("request_", [{"what": What.COMMITTED}, {"flow": Flow.OPTIMIZED}])
def test_a_run_that_lists_nothing_has_no_use_for_an_inventory(
    scene: Scene, request_: dict[str, object]
) -> None:
    """It would be left unread without a word."""
    error = refused(scene, taken(scene), **request_)
    assert isinstance(error, ConfigError)
    assert error.kind == "idle-inventory"


def test_another_repository_inside_is_refused_as_by_a_listing(make_scene: MakeScene) -> None:
    """Also where only the store knows of it, because it came after the inventory."""
    for is_listed in (True, False):
        scene = make_scene()
        before = taken(scene)
        scene.put("data/inner/deep/_lakefs/dummy" if is_listed else "data/_lakefs/dummy", b"1")
        inventory = taken(scene) if is_listed else before
        with pytest.raises(UnsafeToSweepError) as error:
            scene.mark(by(inventory))
        assert error.value.kind == "foreign-repository"


@pytest.mark.parametrize("column", ["size", "last_modified_date", "key"])
def test_an_inventory_without_a_needed_column_is_refused(scene: Scene, column: str) -> None:
    """A size of zero in its place would look like a fact."""
    names = {"size": "Size", "last_modified_date": "LastModifiedDate", "key": "Key"}
    inventory = taken(scene, "s3-csv")
    schema = json.loads(inventory.read(inventory.manifest))["fileSchema"]
    inventory.change_manifest(fileSchema=schema.replace(names[column], "Other"))
    error = refused(scene, inventory)
    assert error.kind == "bad-inventory"
    assert inventory.files[0] in error.message or inventory.files[1] in error.message


def test_where_there_is_no_inventory_nothing_is_listed(scene: Scene) -> None:
    """A misspelt URI is no empty inventory."""
    for uri in ("mem://nowhere/x", "mem://nowhere/x/manifest.json", "mem://nowhere/x.parquet"):
        error = refused(scene, uri)
        assert isinstance(error, ConfigError)
        assert error.kind == "no-inventory"


def test_a_damaged_csv_is_refused_where_no_sum_tells(scene: Scene) -> None:
    """A gzip stream that ends early, with the sum of what is left of it."""
    inventory = taken(scene, "s3-csv", files=1)
    data = gzip.compress(gzip.decompress(inventory.read(inventory.files[0])) * 50)[:-30]
    inventory.write(inventory.files[0], data)
    told = {
        "key": inventory.files[0],
        "size": len(data),
        "MD5checksum": hashlib.md5(data).hexdigest(),
    }
    inventory.change_manifest(files=[told])
    assert refused(scene, inventory).kind == "bad-inventory"
