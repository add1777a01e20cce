"""What a server tells of itself: numbers for Prometheus, and whether it is ready."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep.lake import readiness
from lakesweep.lake.counting import count_lake
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.server import LakeServer
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LakeServer]:
    with LakeServer(tmp_path / "lake") as server:
        yield server


def scraped(server: LakeServer) -> dict[str, float]:
    reply = httpx.get(
        f"{server.url}/metrics", auth=(server.access_key_id, server.secret_access_key)
    )
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+(\{[a-zA-Z0-9_="+:.,]*\})? [0-9.]+', line) for line in lines)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_requests_and_what_lies_in_the_lake_are_counted(server: LakeServer, s3_client: Any) -> None:
    """By operation and status, with latencies and bytes; the lake's own numbers beside them."""
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth) as client:
        body = {"name": "sales", "storage_namespace": "local://sales"}
        client.post("/repositories", json=body)
        for path in ("a", "b"):
            client.post(f"/repositories/sales/branches/main/objects?path={path}", content=b"12345")
        client.get("/repositories/sales/branches/main/staging/backing?path=c")
        client.get("/repositories/nowhere")
    s3_client(server).put_object(Bucket="sales", Key="main/d", Body=b"x")
    found = scraped(server)
    assert found['lakesweep_lake_requests_total{operation="upload_object",status="201"}'] == 2
    assert found['lakesweep_lake_requests_total{operation="get_repository",status="404"}'] == 1
    assert found['lakesweep_lake_requests_total{operation="s3:put_object",status="200"}'] == 1
    assert found['lakesweep_lake_request_seconds_count{operation="upload_object"}'] == 2
    assert found['lakesweep_lake_request_seconds_bucket{operation="upload_object",le="+Inf"}'] == 2
    assert found['lakesweep_lake_bytes_total{direction="received"}'] >= 11
    assert found["lakesweep_lake_staged_entries"] == 3
    assert found["lakesweep_lake_pending_uploads"] == 1
    assert found["lakesweep_lake_repositories"] == 1
    assert found["lakesweep_lake_slices_total"] == 1
    assert found["lakesweep_lake_counts_are_cut"] == 0


def test_strangers_read_no_metrics_and_add_none(server: LakeServer) -> None:
    """401; and what they ask for makes no series of its own."""
    assert httpx.get(f"{server.url}/metrics").status_code == 401
    for number in range(3):
        httpx.get(f"{server.endpoint}/made-up-{number}")
    names = [name for name in scraped(server) if "requests_total" in name]
    assert names == ['lakesweep_lake_requests_total{operation="unknown",status="401"}']


def test_counting_is_bounded() -> None:
    """A lake with more rows than a count may read says so."""
    repo = LakeRepo().create()
    for number in range(5):
        repo.put(f"p{number}")
    assert (count_lake(repo.lake).staged, count_lake(repo.lake).is_cut) == (5, False)
    cut = count_lake(repo.lake, most_rows=3)
    assert (cut.staged, cut.is_cut) == (3, True)


def test_ready_server_says_so_without_a_key(server: LakeServer) -> None:
    """And leaves nothing in its folder."""
    reply = httpx.get(f"{server.url}/_ready")
    assert (reply.status_code, reply.json()) == (200, {"disk": "ok", "refs": "ok"})
    assert not list(server.lake.settings.data_dir.glob(".ready*"))


def test_server_whose_folder_is_gone_is_not_ready(server: LakeServer) -> None:
    """It lives, and must not be sent requests; the answer names no path."""
    shutil.rmtree(server.lake.settings.data_dir)
    reply = httpx.get(f"{server.url}/_ready")
    assert reply.status_code == 503
    assert reply.json()["disk"] == "not writable"
    assert "/" not in reply.text
    assert httpx.get(f"{server.url}/_health").status_code == 200


def test_full_disk_is_not_ready(server: LakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the last byte is gone."""
    monkeypatch.setattr(readiness, "LEAST_FREE_BYTES", 1 << 62)
    assert httpx.get(f"{server.url}/_ready").json()["disk"] == "full"


def test_silent_ref_store_is_not_ready(server: LakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words stay in the log."""

    def fail() -> bool:
        raise RefStoreError("postgresql://db.internal did not answer")

    monkeypatch.setattr(server.lake.credentials, "is_initialized", fail)
    reply = httpx.get(f"{server.url}/_ready")
    assert (reply.status_code, reply.json()["refs"]) == (503, "no answer")
    assert "db.internal" not in reply.text
