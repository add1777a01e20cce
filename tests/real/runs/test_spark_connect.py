"""lakesweep over Spark Connect: the driver has no JVM, and the server is told all by `--remote`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository, lake_environment, new_repository
from lakesweep_testing.servers import SparkConnect, free_port

pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

MakeRepository = Callable[[str], Repository]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def connect() -> Iterator[SparkConnect]:
    with SparkConnect() as server:
        yield server


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture(scope="module")
def make_repository(lake: LakeServer) -> Iterator[MakeRepository]:
    auth = (lake.access_key_id, lake.secret_access_key)
    with httpx.Client(base_url=lake.endpoint, auth=auth, timeout=60) as api:
        yield lambda name: new_repository(lake, api, name)


@pytest.fixture
def command(lake: LakeServer, connect: SparkConnect, tmp_path: Path) -> Command:
    """Runs the command line over Spark Connect, where no JVM can be started by mistake."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **lake_environment(lake), "JAVA_HOME": str(tmp_path)}
        return subprocess.run(
            [
                *(sys.executable, "-m", "lakesweep", words[0], "--output", "json"),
                *("--remote", connect.remote_url, *words[1:]),
            ],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def record_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-4000:]
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def test_mark_backup_and_sweep(
    make_repository: MakeRepository, command: Command, tmp_path: Path
) -> None:
    """The same result as on any other Spark: the garbage goes, the rest stays."""
    repo = make_repository("remote")
    marked = record_of(command("mark", repo.name))
    assert (marked["objects"]["expired"], marked["objects"]["unreferenced"]) == (1, 1)
    mark_id = ("--mark-id", marked["mark_id"])
    copied = record_of(command("backup", repo.name, *mark_id, "--to", f"file://{tmp_path}/copies"))
    assert copied["objects"]["copied"] == 2
    swept = record_of(command("sweep", repo.name, *mark_id))
    assert (swept["status"], swept["objects"]["deleted"]) == ("swept", 2)
    assert not repo.has(repo.expired)
    assert not repo.has(repo.unreferenced)
    assert repo.has(repo.live)
    assert record_of(command("gc", repo.name))["objects"]["garbage"] == 0


def test_server_that_is_not_there_is_told_at_once(
    make_repository: MakeRepository, command: Command
) -> None:
    """Nobody waits for minutes to learn that an address is wrong."""
    repo = make_repository("alone")
    done = command("mark", repo.name, "--remote", f"sc://127.0.0.1:{free_port()}")
    assert done.returncode == 2, done.stderr[-4000:]
    assert "No Spark Connect server answers" in done.stderr


def test_error_in_a_task_keeps_its_words_and_its_status(
    make_repository: MakeRepository, command: Command
) -> None:
    """A damaged range is refused as such, though the server wraps what its tasks raise."""
    repo = make_repository("damaged")
    (range_file,) = (
        path
        for path in (repo.folder / "_lakefs").iterdir()
        # Of the first commit: the server reads those of the head itself.
        if path.is_file() and is_range_with(b"expired", path.read_bytes())
    )
    range_file.write_bytes(range_file.read_bytes()[:-60] + bytes(60))
    done = command("mark", repo.name)
    assert done.returncode == 4, done.stderr[-4000:]
    record = json.loads(done.stdout)
    assert record["status"] == "refused"
    assert range_file.name in record["reason"]
    assert repo.has(repo.expired)
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


def is_range_with(path: bytes, data: bytes) -> bool:
    """Whether a file of committed data is a range that names a path; small ones are not compressed."""
    return path in data and b"metaranges" not in data


_WATCHED = """
import json, sys, time
import pyarrow as pa
from lakesweep.collector.report_files import FileMailbox
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.reporting import ReportingEngine
from lakesweep.engine.session import build_session
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Scatter
from lakesweep.progress import ProgressBoard
from lakesweep.storage import StorageOptions

SCHEMA = pa.schema([pa.field("n", pa.int64())])

def slowly(items):
    import time
    from lakesweep.progress import advance
    for item in items:
        time.sleep(1.0)
        advance(item, 10 * item)
        yield pa.RecordBatch.from_pylist([{"n": item}], schema=SCHEMA)

told = []
session = build_session(remote=sys.argv[1])
board = ProgressBoard("repo")
target = Target(Location.parse(sys.argv[2]), StorageOptions())
engine = ReportingEngine(
    SparkEngine(session, lambda done, total: told.append((done, total))),
    board,
    lambda: FileMailbox(target, "reports/", every_seconds=0.0),
)
with board.phase("list", "objects") as phase:
    rows = engine.collect(Scatter([1, 2, 3, 4], slowly, SCHEMA, tasks=4))
    seen = phase.snapshot()
left = list(target.open().keys("reports/"))
print(json.dumps([rows.num_rows, seen.items, seen.size_bytes, told, left]))
"""


def test_progress_comes_over_files_and_from_the_server(
    connect: SparkConnect, tmp_path: Path
) -> None:
    """Executors leave reports in the store, the server tells of tasks, and nothing of it stays."""
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, connect.remote_url, f"file://{tmp_path}"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows, objects, size, told, left = json.loads(done.stdout)
    assert (rows, objects, size, left) == (4, 10, 100, [])
    assert all(finished <= total for finished, total in told)
    assert any(total == 4 for _, total in told)
