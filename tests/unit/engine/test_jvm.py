"""A JVM that can't be started ahead leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lakesweep.engine import jvm
from lakesweep.engine.session_settings import DAEMON_MODULE, WORKER_DAEMON


def test_a_spark_that_can_not_be_started_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever needs it is told by pyspark, which tries once more."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workers: list[subprocess.Popen[bytes]] = []
    start = jvm._start_workers

    def noted(path: str) -> subprocess.Popen[bytes]:
        workers.append(start(path))
        return workers[-1]

    monkeypatch.setattr(jvm, "_start_workers", noted)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(FileNotFoundError, match="spark-submit"):
        jvm.AheadJvm(tmp_path / "no-spark", {DAEMON_MODULE: WORKER_DAEMON})
    assert [process.returncode is not None for process in workers] == [True]
    assert list(tmp_path.iterdir()) == []
