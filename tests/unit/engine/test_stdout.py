"""Results reach stdout also while a session starts in another thread, and what a JVM prints does not."""

from __future__ import annotations

import subprocess
import sys

# A JVM that pyspark starts is a process that inherits stdout; one that was started ahead is there already.
SCRIPT = """
import contextlib, subprocess, threading
from types import SimpleNamespace
from unittest.mock import Mock

from lakesweep.cli.streams import write_result
from lakesweep.engine import session

class Jvm:
    @contextlib.contextmanager
    def offered(self):
        yield is_there

class Builder:
    def config(self, *setting):
        return self

    def getOrCreate(self):
        starts.set()
        has_told = told.wait(5 if is_there else 0.2)  # more than it takes to tell what is not held back
        assert has_told == is_there
        subprocess.run(["echo", "of the JVM"], stdout=2 if is_there else None)
        return Mock()

session.SparkSession = SimpleNamespace(builder=Builder())
session.take_jvm = lambda settings: Jvm()
for is_there in (True, False):
    starts, told = threading.Event(), threading.Event()
    thread = threading.Thread(target=session.build_session)
    thread.start()
    starts.wait()
    write_result(f"a result, {is_there}")
    told.set()
    thread.join()
"""


def test_a_result_told_while_spark_starts_is_on_stdout() -> None:
    """Spark starts beside the checks of `lakesweep doctor`, and most of what they had found was told on stderr."""
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a result, True\na result, False\n"), done.stderr
    assert done.stderr == "of the JVM\n" * 2
