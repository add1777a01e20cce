"""Tables of every format that writers of today make, in one catalog over two stores, swept by our Spark too."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakesweep.engine.spark import SparkEngine
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.nessie_contents import namespace
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules, NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.pyiceberg_user import PyIcebergUser
from lakesweep_testing.servers import SparkIcebergWriter
from lakesweep_testing.sweep_check import SweepCheck
from lakesweep_testing.table_places import LocalPlace, MinIOPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

HEADS = CutoffRules(Cutoff(commits=1))
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def db(
    empty_catalog: Callable[[], None], user: NessieWriter, nessie_spark: SparkIcebergWriter
) -> str:
    """A namespace in an empty catalog."""
    name = f"db_{uuid.uuid4().hex[:8]}"
    empty_catalog()
    user.commit("main", {(name,): namespace((name,))})
    nessie_spark.sql("USE REFERENCE main IN nessie", "USE REFERENCE main IN lake")
    return name


def files_of_heads(walk: NessieWalk, oracle: IcebergOracle) -> set[str]:
    return oracle.needed(walk.live(HEADS).states)


@pytest.mark.spark
def test_every_format_on_both_stores_by_our_spark(
    db: str,
    check: SweepCheck,
    nessie_spark: SparkIcebergWriter,
    spark: SparkSession,
    walk: NessieWalk,
) -> None:
    """Version 1, position deletes, deletion vectors, gzipped metadata, statistics; local files and S3 in one sweep."""
    for catalog, table, properties in (
        ("lake", "v1", "'format-version'='1'"),
        ("nessie", "positions", "'format-version'='2', 'write.delete.mode'='merge-on-read'"),
        ("nessie", "vectors", "'format-version'='3', 'write.delete.mode'='merge-on-read'"),
        ("lake", "gzipped", "'write.metadata.compression-codec'='gzip'"),
    ):
        name = f"{catalog}.{db}.{table}"
        nessie_spark.sql(
            f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({properties}) "
            "AS SELECT id FROM range(0, 9, 1, 1)",
            f"DELETE FROM {name} WHERE id = 3",
            f"CALL {catalog}.system.compute_table_stats(table => '{db}.{table}')",
        )
    live = files_of_heads(walk, check.new_oracle())
    for ending in ("-deletes.parquet", "-deletes.puffin", ".gz.metadata.json", ".stats"):
        assert any(name.endswith(ending) for name in live), ending
    by_spark = replace(check.collector, engine=SparkEngine(spark))
    deleted = replace(check, collector=by_spark).sweep(HEADS)
    assert {name.partition(":")[0] for name in deleted} == {"file", "s3"}


def test_files_that_a_table_spells_otherwise_stay(
    db: str,
    check: SweepCheck,
    minio_place: MinIOPlace,
    user: NessieWriter,
    walk: NessieWalk,
) -> None:
    """A data file recorded as s3a:// and one as s3n:// in a table at s3://."""
    py = PyIcebergUser(minio_place, user)
    location = f"{minio_place.root}/{db}/mixed"
    mixed = py.create(SCHEMA, location)
    py.commit("main", (db, "mixed"), mixed)
    for scheme in ("s3a", "s3n"):
        mixed.append(pa.table({"id": [1, 2]}, SCHEMA))
        snapshot = mixed.current_snapshot()
        assert snapshot is not None
        [path] = mixed.inspect.files()["file_path"].to_pylist()[:1]
        data = minio_place.read(path)
        name = f"{location}/data/added-{scheme}.parquet"
        minio_place.write(name, data)
        mixed.overwrite(pa.table({"id": [3]}, SCHEMA))
        mixed.add_files([name.replace("s3:", f"{scheme}:")])
    py.commit("main", (db, "mixed"), mixed)
    minio_place.write(f"{location}/data/stray", b"")
    live = files_of_heads(walk, check.new_oracle())
    assert f"{location}/data/added-s3n.parquet" in live
    deleted = check.sweep(HEADS)
    assert f"{location}/data/added-s3a.parquet" in deleted
    assert f"{location}/data/stray" in deleted


def test_equality_deletes_stay(
    db: str,
    check: SweepCheck,
    local_place: LocalPlace,
    minio_place: MinIOPlace,
    user: NessieWriter,
    nessie_spark: SparkIcebergWriter,
) -> None:
    """Spark needs the file to leave rows out; pyiceberg can't read such tables yet."""
    for number, place in enumerate((local_place, minio_place)):
        py = PyIcebergUser(place, user)
        found = py.create(SCHEMA, f"{place.root}/{db}/equal")
        found.append(pa.table({"id": [1, 2, 3]}, SCHEMA))
        py.delete_where_equal(found, "id", [2])
        py.commit("main", (db, f"equal_{number}"), found)
        place.write(f"{place.root}/{db}/equal/data/stray", b"")
    check.sweep(HEADS)
    for number in (0, 1):
        rows = nessie_spark.sql(f"SELECT id FROM nessie.{db}.equal_{number} ORDER BY id")
        assert [row["id"] for row in rows] == [1, 3]


def test_snapshots_expired_by_iceberg_itself(
    db: str,
    check: SweepCheck,
    nessie_spark: SparkIcebergWriter,
    walk: NessieWalk,
) -> None:
    """With gc.enabled a table's own expiry deletes files that older commits of Nessie still name: heads are swept, older
    commits are refused by name."""
    name = f"lake.{db}.expired"
    nessie_spark.sql(
        f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ('gc.enabled'='true') "
        "AS SELECT id FROM range(0, 5, 1, 1)",
        f"INSERT OVERWRITE {name} VALUES (7)",
        f"INSERT INTO {name} VALUES (8)",
    )
    before = check.new_oracle().needed(walk.live(CutoffRules()).states)
    [counts] = nessie_spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{db}.expired', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    assert counts["deleted_data_files_count"]
    with pytest.raises(UnsafeToSweepError) as refusal:
        check.collector.would_delete(CutoffRules())
    assert any(f in refusal.value.message for f in before if "snap-" in f)
    assert check.sweep(HEADS)
