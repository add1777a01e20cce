"""What the engine still knows when its JVM is gone."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import SparkSession

from lakesweep.engine import spark as spark_module
from lakesweep.engine.spark import SparkEngine


class DyingSession:
    """A session on a cluster whose JVM answers until it is gone."""

    is_gone = False
    master = "spark://cluster:7077"

    @property
    def conf(self) -> DyingSession:
        return self

    @property
    def sparkContext(self) -> DyingSession:
        return self

    def get(self, name: str, default: str = "") -> str:
        if self.is_gone:
            raise ConnectionRefusedError("Answer from Java side is empty")
        return self.master if name == "spark.master" else default


def test_whose_tasks_a_cluster_runs_is_known_without_the_jvm() -> None:
    """A sweep that breaks off asks it, to leave its lease to run out; a JVM that died is a reason to break off."""
    session = DyingSession()
    engine = SparkEngine(cast("SparkSession", session))
    session.is_gone = True
    assert engine.process_tree == ""


class Session:
    """A session with these settings."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = settings


class SessionWithContext(Session):
    """One whose JVM this process has started; a server that it is connected to shows no context."""

    @property
    def sparkContext(self) -> SessionWithContext:
        return self

    @property
    def master(self) -> str:
        return self.conf["spark.master"]


@pytest.mark.parametrize(
    ("kind", "master", "is_here"),
    [
        (SessionWithContext, "local", True),
        (SessionWithContext, "local[2]", True),
        (SessionWithContext, "local[*, 4]", True),
        (SessionWithContext, "local-cluster[2,1,1024]", False),
        (SessionWithContext, "yarn", False),
        (Session, "local[2]", False),
    ],
)
def test_tasks_of_a_cluster_or_of_a_server_can_not_be_watched(
    kind: type[Session], master: str, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that is given back because no process of this machine is left, though tasks delete elsewhere, loses data."""
    monkeypatch.setattr(spark_module, "own_process_tree", lambda: "mark")
    engine = SparkEngine(cast("SparkSession", kind({"spark.master": master})))
    assert engine.process_tree == ("mark" if is_here else "")


@pytest.mark.parametrize(
    ("settings", "has_retries"),
    [
        ({"spark.master": "local[2]"}, False),
        ({"spark.master": "local[2,1]"}, False),
        ({"spark.master": "local[2, 3]"}, True),
        ({"spark.master": "yarn"}, True),
        ({"spark.master": "yarn", "spark.task.maxFailures": "1"}, False),
    ],
)
def test_an_error_is_left_to_another_try_only_where_one_comes(
    settings: dict[str, str], has_retries: bool
) -> None:
    """Raised in the last try, it comes to the driver as Spark's text."""
    engine = SparkEngine(cast("SparkSession", SessionWithContext(settings)))
    assert engine._has_retries == has_retries
