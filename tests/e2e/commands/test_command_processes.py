"""The commands as processes of their own: what a shell script gets."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.engine.process_tree import VARIABLE, is_process_left
from lakesweep.jobs.submitted import run_backup_job, run_restore_job
from lakesweep_testing.commands import Repository, run_to_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

MakeRepository = Callable[[str], Repository]


@pytest.mark.usefixtures("environment")
def test_gc_as_a_process_prints_its_record_and_nothing_else(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    """stdout is one JSON document; the JVM's talk and the phases are on stderr; the lease is given back."""
    repo = make_repository("process")
    program = [sys.executable, "-m", "lakesweep"]
    done = run_to_end(
        *program, "gc", "process", "--output", "json", "--master", "local[2]", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["status"] == "swept"
    assert record["objects"]["deleted"] == 2
    assert not repo.has(repo.expired)
    assert "delete: 2 deleted" in done.stderr
    assert os.environ["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr
    lease = next((repo.folder / "_lakefs/retention/gc/lakesweep/lease").glob("*.json"))
    assert json.loads(lease.read_text())["released"] is True


WITHOUT_SESSION = f"""
import os, sys
from lakesweep.cli import running
from lakesweep.cli.main import run

def no_session(*_):
    raise AssertionError("a session was started")

running.start_engine = no_session
status = run(sys.argv[1:])
print(os.environ["{VARIABLE}"], file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.search
@pytest.mark.usefixtures("environment")
def test_a_small_mark_starts_no_session_and_leaves_no_process(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    """The JVM and the workers that were on their way for a large one go with it."""
    repo = make_repository("small")
    words = ["mark", "small", "--what", "committed", "--output", "json"]
    done = run_to_end(sys.executable, "-c", WITHOUT_SESSION, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    mark = done.stderr.split()[-1]
    while is_process_left(mark):
        time.sleep(
            0.05
        )  # Spark's own script may have a helper left, which ends when nobody reads what it says
    record = json.loads(done.stdout)
    assert (record["status"], record["objects"]["garbage"]) == ("marked", 1)
    lease = next((repo.folder / "_lakefs/retention/gc/lakesweep/lease").glob("*.json"))
    assert json.loads(lease.read_text())["process_tree"] == mark


@pytest.mark.search
@pytest.mark.usefixtures("environment", "spark")
def test_backup_and_restore_jobs_need_no_server(
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the seeds' arguments, in the seeds' order; the type must be that of the namespace."""
    from lakesweep.cli.main import run

    repo = make_repository("jobs")
    assert run(["mark", "jobs", "--mark-id", "m"]) == 0
    listed = f"file://{repo.folder}/_lakefs/retention/gc/addresses/mark_id=m/"
    namespace, backup = f"file://{repo.folder}", f"file://{tmp_path}/backup"
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://127.0.0.1:9")

    assert run_backup_job([listed, namespace, backup, "s3"]) == 2
    assert "of type local" in capsys.readouterr().err
    assert run_backup_job([listed, namespace, backup]) == 2
    assert "EXPIRED-LIST-LOCATION STORAGE-NAMESPACE BACKUP-LOCATION" in capsys.readouterr().err
    assert run_backup_job([listed, namespace, f"{namespace}/x", "local"]) == 2
    capsys.readouterr()
    assert run_backup_job([listed, namespace, backup, "local"]) == 0
    assert "copied                   2" in capsys.readouterr().out
    (repo.folder / repo.expired).unlink()
    assert run_restore_job([listed, backup, namespace, "local"]) == 0
    assert repo.has(repo.expired)
