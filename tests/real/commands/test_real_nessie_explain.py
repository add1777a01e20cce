"""`nessie explain` on a real Nessie and MinIO: what it says of each file is what a sweep does."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lakesweep_testing.commands import Shell
from lakesweep_testing.iceberg_tables import IcebergTable
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers import MinIOServer, NessieServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_files_of_a_real_catalog_are_what_a_sweep_says(
    minio: MinIOServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Live files name their table and commit, dead ones are garbage, and after a sweep it is named."""
    for name in list(os.environ):
        if name.startswith(("LAKESWEEP_", "NESSIE_", "AWS_")) and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys)
    bucket = "nessie-explain"
    minio.make_bucket(bucket)
    s3 = minio.client()

    def write(uri: str, data: bytes) -> None:
        s3.put_object(Bucket=bucket, Key=urlsplit(uri).path[1:], Body=data)

    orders = IcebergTable(
        write, f"s3://{bucket}/db/orders", spelling=lambda uri: uri.replace("s3:", "s3a:")
    )
    with NessieServer() as catalog, NessieWriter(catalog.uri) as nessie:
        first = orders.append("a.parquet", "b.parquet")
        nessie.commit("main", {("db", "orders"): table(first.metadata_location, first.snapshot_id)})
        second = orders.remove("a.parquet")
        nessie.commit(
            "main", {("db", "orders"): table(second.metadata_location, second.snapshot_id)}
        )
        orphan = orders.write_orphan("never-committed.parquet")
        live = sorted(orders.live_files(second))
        dead = sorted(orders.live_files(first) - orders.live_files(second) | {orphan})
        words = [
            *("--uri", catalog.uri, "--cutoff", "main=1", "--grace", "0s"),
            *("-I", f"s3.access-key-id={minio.access_key_id}"),
            *("-I", f"s3.secret-access-key={minio.secret_access_key},client.region=us-east-1"),
            *("-I", f"s3.endpoint={minio.url},s3.path-style-access=true"),
            *("--work-location", f"file://{tmp_path}/work"),
        ]
        found = {
            f["asked"]: f for f in shell.json("nessie", "explain", *live, *dead, *words)["files"]
        }
        assert {found[uri]["said"] for uri in live} == {"live"}
        assert {found[uri]["said"] for uri in dead} == {"garbage"}
        holder = found[second.metadata_location]["holders"][0]
        assert holder["content_key"] == "db.orders"
        assert holder["commit"] == nessie.heads()["main"]
        assert holder["role"] == "metadata"

        jdbc = ["--jdbc-url", f"sqlite:///{tmp_path}/sets.db"]
        shell.run("nessie", "gc", *jdbc, "--jdbc-schema", "CREATE", *words)
        gone = shell.json("nessie", "explain", orphan, *jdbc, *words)["files"][0]
        assert gone["said"] == "deleted"
        sets = shell.json("nessie", "list", *jdbc)["live_sets"]
        assert gone["deletion"]["run_id"] in {one["live_set_id"] for one in sets}
