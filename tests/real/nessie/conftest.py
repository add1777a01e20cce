"""One Nessie with an Iceberg REST catalog on MinIO, one Spark that writes to both places; catalogs one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.fake_nessie import NO_ANCESTOR
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.nessie_walk import NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers import MinIOServer, NessieServer, SparkIcebergWriter
from lakesweep_testing.sweep_check import SweepCheck
from lakesweep_testing.table_places import LocalPlace, MinIOPlace, Times

BUCKET = "nessie-lake"


@pytest.fixture(scope="session")
def bucket(minio: MinIOServer) -> str:
    return minio.make_bucket(BUCKET)


@pytest.fixture(scope="session")
def nessie(minio: MinIOServer, bucket: str) -> Iterator[NessieServer]:
    """A server of this folder's own: a mark walks all that is there."""
    with NessieServer(minio=minio, warehouse=f"{bucket}/rest") as server:
        yield server


@pytest.fixture(scope="session")
def local_place(tmp_path_factory: pytest.TempPathFactory) -> LocalPlace:
    return LocalPlace(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="session")
def minio_place(minio: MinIOServer, bucket: str) -> MinIOPlace:
    return MinIOPlace(minio, f"{bucket}/spark")


@pytest.fixture(scope="session")
def nessie_spark(
    nessie: NessieServer, minio: MinIOServer, local_place: LocalPlace, minio_place: MinIOPlace
) -> Iterator[SparkIcebergWriter]:
    """The catalogs `nessie` and `lake` are one: new tables of the first are local files, of the second objects."""
    s3 = {
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        "s3.endpoint": minio.url,
        "s3.path-style-access": "true",
        "s3.access-key-id": minio.access_key_id,
        "s3.secret-access-key": minio.secret_access_key,
        "client.region": minio.region,
    }
    lake = {
        "catalog-impl": "org.apache.iceberg.nessie.NessieCatalog",
        "uri": nessie.uri,
        "client-api-version": "2",
        "ref": "main",
        "authentication.type": "NONE",
        "warehouse": minio_place.root,
        "cache-enabled": "false",
    }
    settings = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.lake.{name}": value for name, value in (lake | s3).items()},
        **{f"spark.sql.catalog.nessie.{name}": value for name, value in s3.items()},
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.memory": "2g",
    }
    with SparkIcebergWriter(nessie.uri, local_place.root, settings=settings) as writer:
        yield writer


@pytest.fixture(scope="session")
def empty_catalog(nessie: NessieServer) -> Callable[[], None]:
    """Puts every reference back to nothing, so that what earlier tests wrote is no part of the catalog."""

    def empty() -> None:
        with NessieWriter(nessie.uri) as user:
            for name in set(user.heads()) - {"main"}:
                user.delete_reference(name)
            user.assign("main", hash=NO_ANCESTOR)

    return empty


@pytest.fixture(scope="session")
def walk(nessie: NessieServer) -> Iterator[NessieWalk]:
    with NessieWalk(nessie.uri) as walking:
        yield walking


@pytest.fixture(scope="session")
def user(nessie: NessieServer) -> Iterator[NessieWriter]:
    with NessieWriter(nessie.uri) as writing:
        yield writing


@pytest.fixture
def collector(nessie: NessieServer, minio_place: MinIOPlace, tmp_path: Path) -> CatalogCollector:
    """Ours, without Spark."""
    return CatalogCollector(nessie.uri, minio_place.storage, tmp_path / "work")


@pytest.fixture(scope="session")
def new_oracle(local_place: LocalPlace, minio_place: MinIOPlace) -> Callable[[], IcebergOracle]:
    """An oracle that has read nothing yet."""

    def files(folder: str) -> Times:
        return (local_place if urlsplit(folder).scheme == "file" else minio_place).files(folder)

    return lambda: IcebergOracle(minio_place.properties, files)


@pytest.fixture
def check(
    walk: NessieWalk,
    nessie_spark: SparkIcebergWriter,
    collector: CatalogCollector,
    new_oracle: Callable[[], IcebergOracle],
) -> SweepCheck:
    """Holds a sweep against the oracle and against the tables' own readers."""
    return SweepCheck(walk, nessie_spark, collector, new_oracle)
