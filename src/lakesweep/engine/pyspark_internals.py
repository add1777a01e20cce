"""Every name of Spark and pyspark that their documentation does not promise, and what happens where it is gone.

Each of them saves time and nothing else: `tests/spark/test_pyspark_internals.py` and its kin under `tests/unit/` take
them away one by one, and runs still end well. So `pyspark>=` in pyproject.toml follows documented names alone.
This module loads no pyspark: it is read before the JVM starts.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Variables by which `spark-submit` tells the Python program that it starts of its JVM. By them pyspark takes the JVM
# that was started ahead. Without them pyspark starts a JVM of its own, and ours idles until the program ends.
GATEWAY_PORT, GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# The variable that names the file into which a JVM writes its port and its secret. Without it the JVM that was started
# ahead ends, or says nothing for as long as we wait; pyspark then starts its own.
CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
# The setting that names the module which forks workers. Without it Spark runs its own, and each worker loads for itself
# what ours has loaded once for all.
DAEMON_SETTING = "spark.python.daemon.module"
# The module that Spark runs where that setting is missing, and that ours ends in. Without it the setting is not made.
_DAEMON = "pyspark.daemon"
# What workers run: loaded before they are forked. Without it each loads what there is in its place.
WORKER = "pyspark.worker"
# The zip of pyspark that Spark puts in front of the search path. Under another name it stays there, and every process
# compiles what comes out of it.
_ZIPPED = "pyspark.zip"


def has_gateway() -> bool:
    """Whether there may be a JVM already: from an earlier session, or from `spark-submit`.

    Without the private `_gateway` nobody can tell, so a loaded pyspark counts as one that has a JVM: then none is
    started ahead, and work goes to Spark from the start.
    """
    if GATEWAY_PORT in os.environ:
        return True
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and getattr(pyspark.SparkContext, "_gateway", pyspark) is not None


def has_daemon() -> bool:
    """Whether the installed pyspark has the module that forks workers, found without loading pyspark."""
    spec = find_spec("pyspark")
    folders = (spec.submodule_search_locations if spec else None) or []
    return any((Path(folder) / f"{_DAEMON.rpartition('.')[2]}.py").exists() for folder in folders)


def run_daemon() -> None:
    """Fork workers for Spark until it closes our standard input."""
    runpy.run_module(_DAEMON, run_name="__main__")


def with_zips_last(path: list[str]) -> list[str]:
    """The search path with zips of pyspark behind everything else: they still serve where pyspark is not installed."""
    zips = [entry for entry in path if os.path.basename(entry) == _ZIPPED]
    return [entry for entry in path if entry not in zips] + zips


def python_of_workers(context: Any) -> str:
    """The program that Spark starts as Python on executors; how users name it, where the context does not tell."""
    return getattr(context, "pythonExec", None) or "the one that PYSPARK_PYTHON names"
