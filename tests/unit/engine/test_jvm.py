"""A JVM that can't be started ahead leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lakesweep.engine import jvm
from lakesweep.engine.pyspark_internals import DAEMON_SETTING, GATEWAY_PORT
from lakesweep.engine.session_settings import WORKER_DAEMON


def test_a_spark_that_can_not_be_started_leaves_no_process_and_no_file(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever needs it is told by pyspark, which tries once more."""
    monkeypatch.setattr(tempfile, "tempdir", str(short_folder))
    workers: list[subprocess.Popen[bytes]] = []
    start = jvm._start_workers

    def noted(path: str) -> subprocess.Popen[bytes]:
        workers.append(start(path))
        return workers[-1]

    monkeypatch.setattr(jvm, "_start_workers", noted)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(FileNotFoundError, match="spark-submit"):
        jvm.AheadJvm(short_folder / "no-spark", {DAEMON_SETTING: WORKER_DAEMON})
    assert [process.returncode is not None for process in workers] == [True]
    assert list(short_folder.iterdir()) == []


def test_a_jvm_that_never_tells_its_port_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark that no longer knows the variable for its answer would say nothing; pyspark then starts its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(jvm, "_MOST_SECONDS", 0.0)
    submit = tmp_path / "home" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text("#!/bin/sh\nexec cat\n")  # it stays until its standard input closes
    submit.chmod(0o755)
    silent = jvm.AheadJvm(tmp_path / "home", {})
    with silent.offered() as is_there:
        assert not is_there
        assert silent._process.returncode is not None
        assert GATEWAY_PORT not in os.environ
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
