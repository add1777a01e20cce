"""A real Nessie, a real MariaDB, and Spark writing tables into that Nessie."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from urllib.request import urlopen

import pytest

from lakesweep_testing.servers import (
    MariaDBServer,
    MinIOServer,
    NessieServer,
    ServerError,
    SparkIcebergWriter,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def content(nessie: NessieServer, key: str, reference: str = "main") -> dict[str, object]:
    with urlopen(f"{nessie.uri}/trees/{reference}/contents/{key}", timeout=10) as reply:
        found: dict[str, object] = json.load(reply)["content"]
    return found


def test_mariadb_has_a_database_of_its_own(mariadb: MariaDBServer) -> None:
    """Each test can have its own database."""
    import pymysql

    name = f"db_{uuid.uuid4().hex[:10]}"
    assert mariadb.make_database(name).endswith(f":{mariadb.port}/{name}")
    with (
        pymysql.connect(
            host="127.0.0.1", port=mariadb.port, user="root", database=name
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT DATABASE()")
        assert cursor.fetchone() == (name,)


def test_nessie_answers(nessie: NessieServer) -> None:
    """It speaks version 2 and has its default branch."""
    with urlopen(f"{nessie.uri}/config", timeout=10) as reply:
        config = json.load(reply)
    assert config["defaultBranch"] == "main"
    assert config["maxSupportedApiVersion"] == 2


def test_spark_writes_local_tables(nessie: NessieServer, nessie_spark: SparkIcebergWriter) -> None:
    """Tables, branches, merges and row deletes, all in one Spark; a refused statement leaves it fit."""
    db = f"db_{uuid.uuid4().hex[:10]}"
    nessie_spark.sql(
        f"CREATE NAMESPACE nessie.{db}",
        f"CREATE TABLE nessie.{db}.t (id BIGINT, name STRING) USING iceberg "
        "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')",
        f"INSERT INTO nessie.{db}.t VALUES (1, 'a'), (2, 'b')",
        f"CREATE BRANCH {db} IN nessie FROM main",
        f"USE REFERENCE {db} IN nessie",
        f"DELETE FROM nessie.{db}.t WHERE id = 1",
        "USE REFERENCE main IN nessie",
    )
    assert len(nessie_spark.sql(f"SELECT * FROM nessie.{db}.t")) == 2
    assert nessie_spark.sql(f"SELECT * FROM nessie.{db}.`t@{db}`") == [{"id": 2, "name": "b"}]
    with pytest.raises(ServerError, match="no_such_table"):
        nessie_spark.sql("SELECT * FROM nessie.no_such_table")
    nessie_spark.sql(f"MERGE BRANCH {db} INTO main IN nessie")
    assert len(nessie_spark.sql(f"SELECT * FROM nessie.{db}.t")) == 1
    location = str(content(nessie, f"{db}.t")["metadataLocation"])
    assert location.startswith("file:")
    assert Path(location.removeprefix("file:")).is_file()


def test_spark_and_the_rest_catalog_share_a_bucket(minio: MinIOServer) -> None:
    """On S3, Spark and an Iceberg REST client write into one catalog, each seeing the other's tables."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    bucket = minio.make_bucket(f"nessie-{uuid.uuid4().hex[:10]}")
    warehouse = f"{bucket}/warehouse"
    with (
        NessieServer(minio=minio, warehouse=warehouse) as nessie,
        SparkIcebergWriter(nessie.uri, warehouse, minio) as spark,
    ):
        catalog = load_catalog(
            "nessie",
            **{
                "type": "rest",
                "uri": nessie.iceberg_uri,
                "s3.endpoint": minio.url,
                "s3.access-key-id": minio.access_key_id,
                "s3.secret-access-key": minio.secret_access_key,
                "s3.region": minio.region,
            },
        )
        catalog.create_namespace("db")
        catalog.create_table("db.rest", Schema(NestedField(1, "id", LongType(), required=False)))
        spark.sql(
            "INSERT INTO nessie.db.rest VALUES (1), (2)",
            "CREATE TABLE nessie.db.spark (id BIGINT) USING iceberg",
            "INSERT INTO nessie.db.spark VALUES (3)",
        )
        assert catalog.load_table("db.rest").scan().to_arrow()["id"].to_pylist() == [1, 2]
        assert catalog.load_table("db.spark").scan().to_arrow()["id"].to_pylist() == [3]
        location = content(nessie, "db.spark")["metadataLocation"]
        assert str(location).startswith(f"{warehouse}/")
