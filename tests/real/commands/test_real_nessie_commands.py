"""The commands of nessie-gc against a real Nessie, MinIO, PostgreSQL and MariaDB: JDBC URLs, Iceberg properties."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lakesweep_testing.commands import Shell
from lakesweep_testing.iceberg_tables import IcebergTable
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers import MariaDBServer, MinIOServer, NessieServer, PostgresServer

pytestmark = [
    pytest.mark.real,
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("spark"),
]


@pytest.fixture
def catalog() -> Iterator[NessieServer]:
    """A server of this test's own: a mark walks all that is there."""
    with NessieServer() as server:
        yield server


@pytest.fixture(params=["postgresql", "mariadb"])
def jdbc(request: pytest.FixtureRequest) -> list[str]:
    """Options that name a database as nessie-gc's users do."""
    name = f"commands_{request.param}"
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.make_database(name)
        url = f"jdbc:postgresql://127.0.0.1:{postgres.port}/{name}?sslmode=disable"
        return ["--jdbc-url", url, "--jdbc-user", "postgres", "--jdbc-password", "not-asked-for"]
    mariadb: MariaDBServer = request.getfixturevalue("mariadb")
    mariadb.make_database(name)
    url = f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{name}"
    return ["--jdbc-url", url, "--jdbc-user", "root"]


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """No credentials anywhere but on the command line."""
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "NESSIE_", "AWS_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


def test_mark_and_deferred_sweep_on_the_real_things(
    shell: Shell, catalog: NessieServer, minio: MinIOServer, jdbc: list[str]
) -> None:
    """Everything by nessie-gc's own options; what is dead goes, what lives stays, and Nessie is as it was."""
    bucket = f"nessie-{jdbc[1].partition(':')[2].partition(':')[0]}"
    minio.make_bucket(bucket)
    s3 = minio.client()

    def write(uri: str, data: bytes) -> None:
        s3.put_object(Bucket=bucket, Key=urlsplit(uri).path[1:], Body=data)

    def files() -> set[str]:
        found = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {f"s3://{bucket}/{one['Key']}" for one in found}

    # Manifests name their files as Hadoop does, the catalog as Iceberg does.
    orders = IcebergTable(
        write, f"s3://{bucket}/db/orders", spelling=lambda uri: uri.replace("s3:", "s3a:")
    )
    with NessieWriter(catalog.uri) as nessie:
        first = orders.append("a.parquet", "b.parquet")
        nessie.commit("main", {("db", "orders"): table(first.metadata_location, first.snapshot_id)})
        second = orders.remove("a.parquet")
        nessie.commit(
            "main", {("db", "orders"): table(second.metadata_location, second.snapshot_id)}
        )
        orphan = orders.write_orphan("never-committed.parquet")
        heads = nessie.heads()
        dead = orders.live_files(first) - orders.live_files(second) | {orphan}
        before = files()

        words = ["--uri", catalog.uri, "--cutoff", "main=1", "--write-live-set-id-to", "id.txt"]
        shell.run("nessie", "mark-live", *jdbc, "--jdbc-schema", "CREATE", *words)
        of_set = [*jdbc, "-L", "id.txt"]
        access = [
            *("-I", f"s3.access-key-id={minio.access_key_id}"),
            *("-I", f"s3.secret-access-key={minio.secret_access_key},client.region=us-east-1"),
            *("-I", f"s3.endpoint={minio.url},s3.path-style-access=true"),
        ]
        shell.run("nessie", "expire", *of_set, "--defer-deletes", "--grace", "0s", *access)
        recorded = shell.json("nessie", "list-deferred", *of_set)["deferred_deletes"]
        assert {file["uri"] for file in recorded} == dead
        assert files() == before

        out = shell.run("nessie", "deferred-deletes", *of_set, *access, "-u", catalog.uri)
        assert f"Deferred deletion finished: {len(dead)} files deleted, 0 delete failures." in out
        assert files() == before - dead
        assert nessie.heads() == heads
    shell.run("nessie", "delete", *of_set)
    assert len(shell.run("nessie", "list", *jdbc).splitlines()) == 2
