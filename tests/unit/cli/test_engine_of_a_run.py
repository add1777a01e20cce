"""Which engine a run on a repository gets: Spark where a master is named, else this process for what is small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.cli import running
from lakesweep.cli.running import PendingRun
from lakesweep.engine.here_first import HereFirst
from lakesweep.engine.late import LateEngine
from lakesweep.engine.process_tree import VARIABLE
from lakesweep.settings.load import load_settings


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: False)


def engine_of(**flags: object) -> object:
    settings = load_settings({"endpoint_url": "http://127.0.0.1:9", **flags})
    return running._engine(settings, PendingRun("repo"))


def test_small_work_is_done_here_and_what_tells_no_cost_is_not() -> None:
    """A lease can tell the mark of all processes that may come."""
    engine = engine_of()
    assert isinstance(engine, HereFirst)
    assert engine.process_tree == os.environ[VARIABLE]
    assert engine.seconds_here == running._SECONDS_HERE
    engine.begin()  # outside its block no thread is started
    with engine:
        assert not engine._has_room(None)


@pytest.mark.parametrize(
    "flags",
    [
        {"master": "local[2]"},
        {"master": "local[*]"},
        {"remote": "sc://127.0.0.1"},
        {"conf": {"spark.master": "local[1]"}},
    ],
)
def test_a_named_master_is_meant(flags: dict[str, object]) -> None:
    """Nothing is done in the driver's own process, which on a cluster may not even reach the store."""
    assert isinstance(engine_of(**flags), LateEngine)


def test_a_jvm_that_is_there_does_not_carry_this_process_s_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever finds the lease of a run that died could not tell whether its tasks go on."""
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: True)
    assert isinstance(engine_of(), LateEngine)
