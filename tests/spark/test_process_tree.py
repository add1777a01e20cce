"""After a driver's death it is known whether its tasks are gone: every process of a local Spark carries its mark."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.engine.process_tree import VARIABLE, is_process_left
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Scatter

pytestmark = pytest.mark.spark

ROW = pa.schema([pa.field("mark", pa.string())])

# Starts a local Spark, says the mark of its processes, and dies as by `kill -9` while a task works.
DIES = """
import os, signal, sys, threading, time
import pyarrow as pa
from lakesweep.engine.session import build_session
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import Scatter

def work(items):
    for item in items:
        open(item, "x").close()
        time.sleep(600)
        yield pa.RecordBatch.from_pydict({"mark": [""]})

engine = SparkEngine(build_session(master="local[1]"))
print(engine.process_tree, flush=True)
schema = pa.schema([pa.field("mark", pa.string())])
begun = sys.argv[1]
threading.Thread(
    target=lambda: engine.collect(Scatter([begun], work, schema, 1)), daemon=True
).start()
while not os.path.exists(begun):
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _marks(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for _ in items:
        words = Path("/proc/self/environ").read_bytes().split(b"\0")
        mark = next((w for w in words if w.startswith(VARIABLE.encode())), b"").decode()
        yield pa.RecordBatch.from_pydict({"mark": [mark]}, schema=ROW)


def test_workers_of_a_local_spark_carry_the_mark_of_their_driver(spark: SparkSession) -> None:
    """The lease names the mark, and whoever finds the driver dead looks for it."""
    engine = SparkEngine(spark)
    mark = engine.process_tree
    assert mark
    assert is_process_left(mark)
    rows = engine.collect(Scatter([1, 2], _marks, ROW, 2)).to_pylist()
    assert {row["mark"] for row in rows} == {f"{VARIABLE}={mark}"}


def test_tasks_of_a_killed_driver_are_found_gone(tmp_path: Path) -> None:
    """A local Spark whose driver was killed ends by itself, in the middle of a task, too; then nobody has to wait."""
    words = [sys.executable, "-c", DIES, str(tmp_path / "begun")]
    killed = subprocess.run(words, stdout=subprocess.PIPE, check=False, timeout=100)
    mark = killed.stdout.decode().strip()
    assert killed.returncode == -9
    assert mark
    while is_process_left(mark):
        time.sleep(0.05)
