"""Names that pyspark does not promise are used only where they were tried, and missed by nobody."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lakesweep.engine import jvm, pyspark_internals
from lakesweep.engine.pyspark_internals import (
    DAEMON_SETTING,
    GATEWAY_PORT,
    has_gateway,
    python_of_workers,
    with_zips_last,
)
from lakesweep.engine.session_settings import session_settings

START = jvm._start  # tests start no JVM ahead, so the fixture of all has put another in its place


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


@pytest.mark.parametrize(
    ("version", "is_tried"),
    [("4.1.0", True), ("4.3.9", True), ("4.30.0", False), ("5.0.0.dev1", False), ("", False)],
)
def test_with_a_pyspark_that_nobody_tried_spark_starts_as_it_would_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_tried: bool
) -> None:
    """No daemon of ours, and no JVM ahead: names that are there may have come to mean something else."""
    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    if version:
        (tmp_path / "version.py").write_text(f"__version__: str = {version!r}\n")
    monkeypatch.setattr(pyspark_internals, "find_spec", lambda name: spec)
    monkeypatch.setattr(jvm, "has_gateway", lambda: False)
    monkeypatch.setattr(jvm, "prepare_environment", lambda settings: None)
    monkeypatch.setattr(jvm, "AheadJvm", lambda home, settings: (home, settings))
    assert (DAEMON_SETTING in session_settings("local[1]", None)) == is_tried
    assert (START("local[1]", None) is not None) == is_tried


def test_without_spark_there_is_no_version_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs Spark is told that it is missing."""
    monkeypatch.setattr(pyspark_internals, "find_spec", lambda name: None)
    assert pyspark_internals.pyspark_version() == ""


def test_the_pyspark_of_this_project_is_known() -> None:
    """A newer one is tried (docs/design/012) before its version is added."""
    assert pyspark_internals.pyspark_version() == version("pyspark")
    assert pyspark_internals.is_known()


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
