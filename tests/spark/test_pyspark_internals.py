"""A Spark that has dropped a name which it never promised starts more slowly, and works as well."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Three JVMs from nothing take a minute, which `make test` does not have; the unit tests take each name away, too.
pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.timeout(200)]

# A name is gone from Spark's side when ours is spelled otherwise. Two tasks, so that workers are forked.
PROGRAM = """
import sys
import lakesweep.engine.pyspark_internals as internals
for name in sys.argv[1:]:
    assert hasattr(internals, name), name
    setattr(internals, name, f"spark.lakesweep.none.{name}")
import lakesweep.engine.jvm
from lakesweep.engine.jvm import jvm_ahead
if "CONNECTION_FILE" in sys.argv:
    lakesweep.engine.jvm._MOST_SECONDS = 1.0  # that JVM neither tells its port nor ends
with jvm_ahead("local[2]", {}):
    from lakesweep.engine.session import build_session
    session = build_session(master="local[2]")
rows = session.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id long").collect()
print(*sorted(row.id for row in rows))
session.stop()
"""


@pytest.mark.parametrize(
    "names", [["GATEWAY_PORT", "DAEMON_SETTING"], ["GATEWAY_SECRET"], ["CONNECTION_FILE"]]
)
def test_a_session_starts_and_works_without(names: list[str]) -> None:
    """A JVM of pyspark's own takes the place of ours, and Spark's own daemon that of ours."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (done.returncode, done.stdout) == (0, "0 1 2 3\n"), done.stderr
