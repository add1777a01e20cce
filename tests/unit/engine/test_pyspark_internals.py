"""Names that pyspark does not promise are missed by nobody: each is taken away here, or in tests/spark/."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lakesweep.engine import pyspark_internals, worker_daemon
from lakesweep.engine.pyspark_internals import (
    DAEMON_SETTING,
    GATEWAY_PORT,
    has_gateway,
    python_of_workers,
    with_zips_last,
)
from lakesweep.engine.session_settings import session_settings


def load_pyspark(monkeypatch: pytest.MonkeyPatch, **context: object) -> None:
    """A loaded pyspark whose SparkContext has these names and no others."""
    fake = ModuleType("pyspark")
    fake.__dict__["SparkContext"] = SimpleNamespace(**context)
    monkeypatch.setitem(sys.modules, "pyspark", fake)
    monkeypatch.delenv(GATEWAY_PORT, raising=False)


def test_a_jvm_is_known_by_its_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """`SparkContext._gateway` is None until there is one."""
    load_pyspark(monkeypatch, _gateway=None)
    assert not has_gateway()
    load_pyspark(monkeypatch, _gateway=object())
    assert has_gateway()
    monkeypatch.delitem(sys.modules, "pyspark")
    assert not has_gateway()
    monkeypatch.setenv(GATEWAY_PORT, "1")
    assert has_gateway()


def test_without_the_gateways_name_a_loaded_pyspark_counts_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A JVM beside one that nobody sees would not carry this process's mark."""
    load_pyspark(monkeypatch)
    assert has_gateway()


@pytest.mark.parametrize("has_module", [True, False])
def test_without_its_daemon_spark_forks_workers_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_module: bool
) -> None:
    """Ours ends in `pyspark.daemon`, so it is not named where that is missing."""
    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(pyspark_internals, "find_spec", lambda name: spec)
    if has_module:
        (tmp_path / "daemon.py").touch()
    assert (DAEMON_SETTING in session_settings("local[1]", None)) == has_module


def test_without_spark_no_daemon_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs Spark is told that it is missing."""
    monkeypatch.setattr(pyspark_internals, "find_spec", lambda name: None)
    assert not pyspark_internals.has_daemon()


def test_workers_that_can_not_be_loaded_ahead_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest is loaded all the same."""
    frozen: list[bool] = []
    monkeypatch.setattr(worker_daemon, "WORKER", "lakesweep.engine.no_such_worker")
    monkeypatch.setattr(worker_daemon, "_NEEDED", ("lakesweep.storage",))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    worker_daemon.load_ahead()
    assert frozen == [True]


def test_zipped_copies_of_pyspark_come_last() -> None:
    """Found first, every module in them would be compiled again by every worker; they stay as the last resort."""
    path = [
        "/spark/python/lib/pyspark.zip",
        "/spark/python/lib/py4j-src.zip",
        "/app",
        "/site-packages",
    ]
    assert with_zips_last(path) == [*path[1:], path[0]]
    assert with_zips_last(["/other.zip", "/app"]) == ["/other.zip", "/app"]


def test_the_workers_python_is_named_as_far_as_it_is_known() -> None:
    """By the context, or by how users name it: over Spark Connect there is no context."""
    assert python_of_workers(SimpleNamespace(pythonExec="/opt/python")) == "/opt/python"
    for context in (SimpleNamespace(), None):
        assert python_of_workers(context) == "the one that PYSPARK_PYTHON names"
