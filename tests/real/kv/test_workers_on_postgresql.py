"""`lakesweep serve --workers 2 --db postgresql://…` with the real thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from lakesweep_testing.servers import PostgresServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

KEY = ("AKIATESTONLY", "test-only-secret")
UPLOAD = "/repositories/repo/branches/main/objects?path="


@pytest.fixture
def process(postgres: PostgresServer, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    url = postgres.make_database("workers")
    words = [
        "serve",
        "--data",
        str(tmp_path / "lake"),
        "--db",
        url,
        "--port",
        "0",
        "--workers",
        "2",
    ]
    variables = {
        "LAKESWEEP_SERVE_ACCESS_KEY_ID": KEY[0],
        "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": KEY[1],
    }
    started = subprocess.Popen(
        [sys.executable, "-m", "lakesweep", *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0
        assert started.stdout is not None
        started.stdout.close()


def test_two_workers_on_postgresql(process: subprocess.Popen[str]) -> None:
    """Both write at once and commit against each other; one is killed; all that was acknowledged is there."""
    assert process.stdout is not None
    endpoint = process.stdout.readline().split()[1] + "/api/v1"

    def call(method: str, path: str, **how: object) -> httpx.Response:
        return httpx.request(method, endpoint + path, auth=KEY, timeout=60, **how)  # type: ignore[arg-type]

    place = {"name": "repo", "storage_namespace": "local://repo"}
    assert call("POST", "/repositories", json=place).status_code == 201

    def write(number: int) -> str:
        stored = call("POST", f"{UPLOAD}{number:03d}", content=b"%d" % number)
        assert stored.status_code == 201
        if number % 5 == 0:
            done = call("POST", "/repositories/repo/branches/main/commits", json={"message": "m"})
            assert done.status_code in (201, 400, 429)  # 400: another commit took what was staged
        return str(stored.json()["physical_address"]).split("/")[-2]

    slices: set[str] = set()
    with ThreadPoolExecutor(8) as threads:
        # One may start seconds after the other. The test's time limit ends a wait in vain.
        while len(slices) < 2:
            slices |= set(threads.map(write, [1] * 8))
        slices |= set(threads.map(write, range(30)))
    assert len(slices) == 2, "each worker writes to slices of its own"
    workers = [
        child
        for child in psutil.Process(process.pid).children()
        if "spawn_main" in " ".join(child.cmdline())
    ]
    os.kill(workers[0].pid, signal.SIGKILL)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(30, 40)))
    listed = call("GET", "/repositories/repo/refs/main/objects/ls?amount=1000").json()["results"]
    assert [row["path"] for row in listed] == [f"{number:03d}" for number in range(40)]
    read = call("GET", "/repositories/repo/refs/main/objects?path=039")
    assert read.content == b"39"
