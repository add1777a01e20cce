"""What a failed Spark job means: executors that are not set up for us, or something that nobody foresaw."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from lakesweep.engine.pyspark_internals import python_of_workers
from lakesweep.errors import ConfigError, LakesweepError, UnexpectedError

_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '?([\w.]+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH|Python in worker has different version")
_TRACEBACK = "Traceback (most recent call last):"


def failure_of_job(spark: SparkSession, error: Exception) -> LakesweepError:
    """The error of ours for what Spark raised."""
    text = str(error)
    found = None
    if no_module := _NO_MODULE.search(text):
        found = f"have a Python without {no_module[1].partition('.')[0]}"
    elif no_program := _NO_PROGRAM.search(text):
        found = f"can't start {no_program[1]}"
    elif _OTHER_VERSION.search(text):
        found = "have a Python of another version than the driver's"
    if found is None:
        return UnexpectedError(
            f"A task failed on an executor: {_last_words(text)} What the other tasks gave was not used. If it is not "
            "Spark that was stopped or ran out of memory, this is a bug: please report it."
        )
    return ConfigError(
        f"The executors {found} ({_python_of_executors(spark)}), so nothing was done. They need the driver's Python "
        "version and its packages, lakesweep[spark] among them: set PYSPARK_PYTHON (or spark.pyspark.python) to such a "
        "Python on every node before the session is made, or ship one with --archives "
        "environment.tar.gz#environment and PYSPARK_PYTHON=./environment/bin/python. `lakesweep doctor` tries it.",
        kind="executors-not-set-up",
    )


def _last_words(text: str) -> str:
    """The line of a traceback that says what was raised, or else the first line that says anything."""
    lines = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line.strip()]
    if _TRACEBACK in text:
        lines = [line for line in lines if not line[0].isspace()] or lines
    return lines[0].strip() if lines else "Spark does not say why."


def _python_of_executors(spark: SparkSession) -> str:
    """Which Python executors run; asked of an executor, or where none can run anything, told by the settings."""
    ask = udf(_ask_python(), "string", useArrow=False)
    try:
        row = spark.range(1).select(ask("id").alias("python")).first()
    except Exception:  # noqa: BLE001 (it can't be asked, which is what we are about to say)
        row = None
    if row is not None:
        return str(row["python"])
    context = getattr(spark, "sparkContext", None)  # none over Spark Connect
    return f"Spark starts {python_of_workers(context)}, which can't say more"


def _ask_python() -> Callable[[int], str]:
    # A function inside a function travels whole: the executors may not have the module that it stands in.
    def look(_: int) -> str:
        import socket
        import sys

        return f"{sys.executable} {sys.version.split()[0]} on {socket.gethostname()}"

    return look
