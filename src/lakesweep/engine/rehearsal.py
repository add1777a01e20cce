"""A rehearsal of what every run does on Spark, small enough for a moment: `python -m lakesweep.engine.rehearsal`.

It makes the archive of classes that lets later sessions on this machine start some seconds sooner. `make` does it as
part of its set-up.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lakesweep.engine.session import build_session
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.startup import archive_making_options, class_archive, outdated_archives
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter

logger = logging.getLogger(__name__)

_OPTIONS = "LAKESWEEP_TEST_REHEARSAL_OPTIONS"
_SECONDS = 300
_SUMS = pa.schema([pa.field("left", pa.int64()), pa.field("right", pa.int64())])


def make_class_archive() -> Path | None:
    """The archive for this JVM and this Spark, made if it is not there; None where it can't be made."""
    archive = class_archive()
    if archive.exists():
        return archive
    draft, options = archive_making_options()
    try:
        # The JVM writes the archive while it exits, after the Python that started it: its copy of our pipe tells
        # when it has gone.
        done = subprocess.run(
            [sys.executable, "-m", "lakesweep.engine.rehearsal"],
            env={**os.environ, _OPTIONS: options},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode == 0 and draft.exists():
            draft.rename(archive)
            for old in outdated_archives(archive):
                old.unlink(missing_ok=True)
            return archive
        logger.debug("no class archive was made: %s", done.stdout.decode(errors="replace")[-2000:])
    except (OSError, subprocess.TimeoutExpired) as error:
        # It only saves time, so nothing is lost without it.
        logger.debug("no class archive was made: %s", error)
    finally:
        draft.unlink(missing_ok=True)
    return None


def rehearse(java_options: str) -> None:
    """One scatter and one meeting, as a mark and a sweep have them."""
    session = build_session(master="local[2]", conf={"spark.driver.extraJavaOptions": java_options})
    engine = SparkEngine(session)
    scatter = Scatter([0, 1, 2, 3], cells, CELL_SCHEMA, tasks=2)
    engine.collect(scatter)
    engine.meet(scatter, scatter, count, _SUMS, partitions=2)
    session.stop()


def cells(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """Work function: one cell for each item."""
    for item in items:
        row = {"partition": item % 2, "kind": 1, "blob": b"x"}
        yield pa.RecordBatch.from_pylist([row], schema=CELL_SCHEMA)


def count(left: pa.Table, right: pa.Table) -> pa.Table:
    """A meeting: how many cells came from each side."""
    return pa.Table.from_pylist([{"left": left.num_rows, "right": right.num_rows}], schema=_SUMS)


if __name__ == "__main__":
    given = os.environ.get(_OPTIONS)
    if given is None:
        sys.exit(0 if make_class_archive() else 1)
    rehearse(given)
