"""How the Nessie servers would be started, told without starting them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep_testing.real_parts import (
    JAVA_21,
    MARIADB,
    NESSIE,
    Part,
    PartMissingError,
)
from lakesweep_testing.servers import MariaDBServer, MinIOServer, NessieServer, SparkIcebergWriter


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKESWEEP_CACHE", str(tmp_path))
    return tmp_path


def put(*parts: Part) -> None:
    for part in parts:
        for file in part.files:
            (part.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (part.folder / file).touch()


@pytest.mark.usefixtures("cache")
def test_parts_that_are_missing_are_named() -> None:
    """Each server says what to run, and leaves nothing behind."""
    for server in (MariaDBServer(), NessieServer(), SparkIcebergWriter("http://x", "file:///w")):
        with pytest.raises(PartMissingError, match="make real-parts"), server:
            pass


@pytest.mark.usefixtures("cache")
def test_nessie_listens_on_loopback_only() -> None:
    """Both its ports, with references in memory; more properties are passed on."""
    put(NESSIE, JAVA_21)
    server = NessieServer(properties={"nessie.server.default-branch": "trunk"})
    server.port = 1234
    words = [str(word) for word in server.command()]
    assert words[0] == str(JAVA_21.file())
    assert words[-2:] == ["-jar", str(NESSIE.file())]
    for word in (
        "-Dquarkus.http.host=127.0.0.1",
        "-Dquarkus.http.port=1234",
        "-Dquarkus.management.host=127.0.0.1",
        "-Dnessie.version.store.type=IN_MEMORY",
        "-Dnessie.server.default-branch=trunk",
    ):
        assert word in words
    assert server.uri == "http://127.0.0.1:1234/api/v2"


def test_rest_catalog_takes_a_server_and_a_warehouse() -> None:
    """One without the other is a mistake of the test."""
    with pytest.raises(ValueError, match="MinIO"):
        NessieServer(warehouse="s3://lake/w")
    with pytest.raises(ValueError, match="MinIO"):
        NessieServer(minio=MinIOServer())


@pytest.mark.usefixtures("cache")
def test_mariadb_takes_more_options() -> None:
    """They come last, so they win."""
    put(MARIADB)
    words = [str(word) for word in MariaDBServer("--sql-mode=").command()]
    assert "--bind-address=127.0.0.1" in words
    assert words[-1] == "--sql-mode="
