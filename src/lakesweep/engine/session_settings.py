"""What a session of ours is started with. No pyspark here: the JVM is started with it before pyspark is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from lakesweep.engine.process_tree import mark_process_tree
from lakesweep.engine.pyspark_internals import DAEMON_SETTING, is_known
from lakesweep.engine.startup import quick_start_options
from lakesweep.java import find_java_home

PYTHON_SETTING = "spark.pyspark.python"
WORKER_DAEMON = "lakesweep.engine.worker_daemon"

# What a single machine needs and a cluster's own settings may override.
_LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.showConsoleProgress": "false",
    # Cells are hashes and addresses, which hardly shrink, and they never leave this machine.
    "spark.shuffle.compress": "false",
}

DEFAULTS = {
    # Arrow batches of cells are few and large; the JVM must not split or copy them row by row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.session.timeZone": "UTC",
}


def session_settings(master: str | None, conf: Mapping[str, str] | None) -> dict[str, str]:
    """All settings of a session on `master`, else on all cores of this machine. `conf` has the last word."""
    conf = dict(conf or {})
    master = master or conf.pop("spark.master", None) or "local[*]"
    settings = {"spark.app.name": "lakesweep", "spark.master": master} | DEFAULTS
    if is_local(master):
        settings |= _LOCAL_DEFAULTS
        settings["spark.driver.extraJavaOptions"] = quick_start_options()
        if is_known():
            settings[DAEMON_SETTING] = WORKER_DAEMON
    return settings | conf


def prepare_environment(settings: Mapping[str, str]) -> None:
    """Set the variables by which Spark finds its Java, and the Python of its workers."""
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Workers must find the same packages as the driver does. pyspark itself goes by the variable alone, and does not
    # look at the setting, which only spark-submit does.
    named = settings.get(PYTHON_SETTING)
    if named:
        os.environ["PYSPARK_PYTHON"] = named
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(settings["spark.master"]):
        # Without it Spark looks the host's name up, which fails on machines that have none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        mark_process_tree()


def is_local(master: str) -> bool:
    """Whether the workers are this machine's own."""
    return master.startswith("local")
