"""One real server of each kind for the whole session. Tests keep apart by buckets, containers and repositories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep_testing.servers import (
    AzuriteServer,
    FakeGcsServer,
    MariaDBServer,
    MinIOServer,
    NessieServer,
    PostgresServer,
    RealLakeFS,
    SparkIcebergWriter,
)


@pytest.fixture(scope="session")
def minio() -> Iterator[MinIOServer]:
    with MinIOServer() as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzuriteServer]:
    with AzuriteServer() as server:
        yield server


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[FakeGcsServer]:
    with FakeGcsServer() as server:
        yield server


@pytest.fixture(scope="session")
def real_lakefs(minio: MinIOServer) -> Iterator[RealLakeFS]:
    with RealLakeFS(minio) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    with MariaDBServer() as server:
        yield server


@pytest.fixture(scope="session")
def nessie() -> Iterator[NessieServer]:
    with NessieServer() as server:
        yield server


@pytest.fixture(scope="session")
def nessie_spark(
    nessie: NessieServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkIcebergWriter]:
    """Spark on that Nessie, with a warehouse of local files; tests keep apart by namespaces and branches."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    with SparkIcebergWriter(nessie.uri, warehouse.as_uri()) as writer:
        yield writer
