"""Nessie collections on Spark: what the work functions find in process, and no result from a task that died."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesweep.engine.spark import SparkEngine
from lakesweep_testing.killing import KillingEngine
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write_catalog(scene: NessieScene) -> list[SceneTable]:
    tables = [scene.table(f"t{number}") for number in range(4)]
    tables.append(scene.table("nested", scene.uri("t0/nested")))
    for table in tables:
        for number in range(5):
            table.append(f"{number}.parquet")
        table.remove("0.parquet")
        table.iceberg.write_orphan("x.parquet")
    return tables


def test_on_spark_as_in_process(spark: SparkSession, tmp_path: Path) -> None:
    """Deferred and immediate, both engines name the same files."""
    with NessieScene(tmp_path) as scene:
        tables = write_catalog(scene)
        marked = scene.mark("2")
        scene.defer(marked)
        expected = scene.deferred(marked)
        before = scene.files()

        scene.engine = SparkEngine(spark)
        again = scene.mark("2")
        scene.defer(again)
        assert scene.deferred(again) == expected
        record = scene.delete_deferred(again, ask_nessie=True)

        assert before - scene.files() == expected
        assert record.objects["deleted"] == len(expected)
        for table in tables:
            assert table.live_files(table.states[-1]) <= scene.files()


def test_a_worker_killed_in_every_job_changes_no_result(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each kind of work dies once, after it wrote something; Spark tries again, and the numbers are those of one run."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    with NessieScene(tmp_path) as scene:
        tables = write_catalog(scene)
        marked = scene.mark("2")
        scene.defer(marked)
        expected = scene.deferred(marked)
        before = scene.files()

        killing = KillingEngine(SparkEngine(spark), deaths)
        scene.engine = killing
        record = scene.expire(scene.mark("2"))

        assert killing.deaths >= 5
        assert before - scene.files() == expected
        assert record.objects["garbage"] == len(expected)
        assert record.objects["deleted"] + record.objects["already_gone"] == len(expected)
        assert tables
