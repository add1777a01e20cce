"""`lakesweep serve --workers N`: several processes on one port and one data folder."""

from __future__ import annotations

import itertools
import json
import operator
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from lakesweep.lake.errors import LakeError
from lakesweep.lake.server import bind
from lakesweep.lake.workers import run_workers

# Of an object store that is not used: words that every worker logs, so that it shows whether they are masked.
SECRET = "server process"


@dataclass(frozen=True, slots=True)
class Served:
    """A server with two workers."""

    folder: Path
    process: subprocess.Popen[str]
    endpoint: str
    auth: tuple[str, str]

    def workers(self) -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process(self.process.pid).children()
            if "spawn_main" in " ".join(child.cmdline())
        ]

    def call(self, method: str, path: str, **how: object) -> httpx.Response:
        """One request on a connection of its own."""
        return httpx.request(method, self.endpoint + path, auth=self.auth, timeout=60, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests, because three processes start for it: the tests that kill some of them come last."""
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    words = ["serve", "--data", str(folder / "lake"), "--port", "0", "--workers", "2"]
    words += ["--audit-log", str(folder / "audit.log"), "--log-format", "json"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakesweep", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET},
        )
    assert process.stdout is not None
    try:
        said = "".join(process.stdout.readline() for _ in range(3))
        found = re.findall(r"(http://\S+|(?<=key id)\s+\S+|(?<=access key )\s+\S+)", said)
        url, key, secret = (word.strip() for word in found)
        served = Served(folder, process, f"{url}/api/v1", (key, secret))
        place = {"name": "repo", "storage_namespace": "local://repo"}
        assert served.call("POST", "/repositories", json=place).status_code == 201
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(60) in (0, -signal.SIGKILL)


_UPLOAD = "/repositories/repo/branches/main/objects?path="


@pytest.mark.search
def test_each_worker_writes_to_slices_of_its_own(served: Served) -> None:
    """Whoever answers, the object is there for all; and no slice has two writers."""
    slices: set[str] = set()
    paths: set[int] = set()
    # One may start seconds after the other. The test's time limit ends a wait in vain.
    for number in itertools.cycle(range(500)):
        reply = served.call("POST", f"{_UPLOAD}{number}", content=b"x")
        assert reply.status_code == 201
        slices.add(reply.json()["physical_address"].split("/")[-2])
        paths.add(number)
        if len(slices) == 2:
            break
    listed = served.call("GET", "/repositories/repo/refs/main/objects/ls?amount=1000").json()
    assert len(listed["results"]) == len(paths)


def test_workers_that_can_not_start_end_the_server() -> None:
    """Instead of being started for ever."""
    with bind("127.0.0.1", 0) as listener, pytest.raises(LakeError, match="as soon as they start"):
        # Called with a socket and a flag, this raises.
        run_workers(2, listener, operator.contains, announce=lambda: None)


def test_audit_log_goes_on_in_a_new_file_after_a_hangup(served: Served) -> None:
    """As logrotate asks for it: the old file is moved, and the watcher tells every worker, also one just begun."""
    log, old = served.folder / "audit.log", served.folder / "audit.log.1"
    log.rename(old)
    before = len(old.read_text().splitlines())
    workers = {worker.pid for worker in served.workers()}
    served.process.send_signal(signal.SIGHUP)
    while not log.exists():
        assert served.call("GET", "/user").status_code == 200
    asked = 0
    while asked < 12 or not (log.exists() and len(log.read_text().splitlines()) >= 12):
        assert served.call("GET", "/user").status_code == 200
        asked += 1
    assert {worker.pid for worker in served.workers()} == workers
    lines = old.read_text().splitlines() + log.read_text().splitlines()
    assert all(json.loads(line)["status"] in (200, 201) for line in lines)
    assert len(old.read_text().splitlines()) >= before
    assert log.stat().st_mode & 0o077 == 0


def test_workers_log_as_the_server_was_told_to(served: Served) -> None:
    """Each line is a JSON object without the server's secrets; the fixture's first request was answered by a worker."""
    said = (served.folder / "server.log").read_text()
    lines = [json.loads(line) for line in said.splitlines()]
    started = {line["message"] for line in lines}
    workers = {f"Started *** [{worker.pid}]" for worker in served.workers()}
    assert started & workers
    assert SECRET not in said


@pytest.mark.search
def test_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(served: Served) -> None:
    """The port stays open, another process takes over."""
    assert served.call("POST", f"{_UPLOAD}a", content=b"kept").status_code == 201
    before = served.workers()
    for worker in before:
        os.kill(worker.pid, signal.SIGKILL)
    read = served.call("GET", "/repositories/repo/refs/main/objects?path=a")
    assert read.content == b"kept"
    assert {worker.pid for worker in served.workers()}.isdisjoint({w.pid for w in before})


def test_workers_end_with_their_watcher(served: Served) -> None:
    """Also when it is killed and can't tell them."""
    workers = served.workers()
    assert len(workers) == 2
    served.process.kill()
    gone, alive = psutil.wait_procs(workers, timeout=60)
    assert (len(gone), alive) == (2, [])
