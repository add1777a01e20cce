"""What the engine still knows when its JVM is gone."""

from __future__ import annotations

from typing import cast

from pyspark.sql import SparkSession

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
