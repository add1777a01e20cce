"""Executors whose own Python has no lakesweep run it from the archive that `make packed-env` makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep.java import find_java_home
from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository, lake_environment, new_repository
from lakesweep_testing.servers import SparkConnect, SparkMaster, SparkWorker

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[3]
BARE = str(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]
PACKED = "./environment/bin/python"
# The checkout is on this process's path, and must not be on theirs.
BARE_NODE = {"PYSPARK_PYTHON": BARE, "PYTHONPATH": ""}

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executors need of it, lakesweep without extras, and not compressed, which takes longest."""
    archive = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    tool = [sys.executable, str(ROOT / "tools" / "packed_env.py")]
    subprocess.run(
        [*tool, "--extras", "", "--compression", "0", "--output", str(archive)], check=True
    )
    return archive


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture
def repo(lake: LakeServer, request: pytest.FixtureRequest) -> Iterator[Repository]:
    auth = (lake.access_key_id, lake.secret_access_key)
    name = request.node.name.replace("_", "-")[:40].strip("-")
    with httpx.Client(base_url=lake.endpoint, auth=auth, timeout=60) as api:
        yield new_repository(lake, api, name)


@pytest.fixture
def command(lake: LakeServer) -> Command:
    def run(*words: str, conf: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        flags = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
        return subprocess.run(
            [sys.executable, "-m", "lakesweep", *words, *flags, "--output", "json"],
            env={**os.environ, **lake_environment(lake), "SPARK_LOCAL_IP": "127.0.0.1"},
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


def assert_collected(record: dict[str, Any], repo: Repository) -> None:
    assert (record["status"], record["objects"]["deleted"]) == ("swept", 2)
    assert not repo.has(repo.expired)
    assert repo.has(repo.live)


def test_on_a_standalone_cluster(
    repo: Repository, command: Command, archive: Path, lake: LakeServer
) -> None:
    """A command collects, and a job of spark-submit finds nothing more."""
    with SparkMaster() as master, SparkWorker(master, BARE_NODE):
        words = ("gc", repo.name, "--master", master.master_url)
        conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        packed = {"spark.archives": f"{archive}#environment", "spark.pyspark.python": PACKED}
        assert_collected(record_of(command(*words, conf=conf | packed)), repo)
        submitted = submit(master, archive, lake, repo.name, conf)
        assert record_of(submitted)["objects"]["garbage"] == 0


def submit(
    master: SparkMaster, archive: Path, lake: LakeServer, repo: str, conf: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """The job of spark-submit, as docs/how-to/spark-submit.md has it."""
    job = [sys.executable, "-m", "lakesweep", "job", "gc"]
    path = subprocess.run(job, capture_output=True, text=True, check=True).stdout.strip()
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", master.master_url]
    words += ["--archives", f"{archive}#environment"]
    words += [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    python = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": PACKED}
    home = {"JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [*words, path, repo, "us-east-1", "--quiet", "--output", "json"],
        env={**os.environ, **lake_environment(lake), **home, **python},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_over_spark_connect(repo: Repository, command: Command, archive: Path) -> None:
    """The same two settings: the archive goes to the server with the session."""
    pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
    with SparkConnect(BARE_NODE) as server:
        packed = {"spark.archives": f"{archive}#environment", "spark.pyspark.python": PACKED}
        done = command("gc", repo.name, "--remote", server.remote_url, conf=packed)
        assert_collected(record_of(done), repo)
