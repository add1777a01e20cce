"""The collection as spark-submit starts it, on the embedded lake."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakesweep.engine.startup import quick_start_options
from lakesweep.java import find_java_home
from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import lake_environment, new_repository, run_to_end

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.timeout(300)]

HADOOP = "spark.hadoop.lakefs."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeServer]:
    """A lake that no setting of the environment names."""
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_", "AZURE_", "GOOGLE_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    with LakeServer(tmp_path / "lake") as server:
        for name, value in lake_environment(server).items():
            monkeypatch.setenv(name, value)
        yield server


def test_spark_submit_as_in_the_seeds(
    server: LakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Properties come from the session alone: server, credentials, and the stage."""
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth, timeout=60) as api:
        repo = new_repository(server, api, "submitted")
    properties = {
        f"{HADOOP}api.url": server.endpoint,
        f"{HADOOP}api.access_key": server.access_key_id,
        f"{HADOOP}api.secret_key": server.secret_access_key,
        f"{HADOOP}gc.do_sweep": "false",
        f"{HADOOP}gc.mark_id": "by-submit",
        "spark.ui.enabled": "false",
    }
    for name in (
        "SERVER_ENDPOINT_URL",
        "CREDENTIALS_ACCESS_KEY_ID",
        "CREDENTIALS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.delenv(f"LAKECTL_{name}")
    monkeypatch.setenv("JAVA_HOME", str(find_java_home()))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    job = run_to_end(sys.executable, "-m", "lakesweep", "job", "gc", cwd=tmp_path).stdout.strip()
    confs = [word for name, value in properties.items() for word in ("-c", f"{name}={value}")]
    submit = Path(sys.executable).with_name("spark-submit")
    spark = ["--master", "local[2]", "--driver-java-options", quick_start_options()]
    words = ["submitted", "us-east-1", "--quiet", "--output", "json"]
    done = run_to_end(submit, *spark, *confs, job, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(done.stdout)
    assert (record["status"], record["mark_id"]) == ("marked", "by-submit")
    assert record["objects"]["garbage"] == 2
    assert repo.has(repo.expired)
