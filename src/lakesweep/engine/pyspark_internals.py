"""Every name of Spark and pyspark that their documentation does not promise, and what happens where it is gone.

Each of them saves time and nothing else, and none is used with a pyspark that nobody tried them with (`is_known`): such a
Spark starts as it would without us. So `pyspark>=` in pyproject.toml follows documented names alone.
This module loads no pyspark: it is read before the JVM starts.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Versions that the names below were tried with.
_KNOWN = ("4.1", "4.2", "4.3")
# Variables by which `spark-submit` tells the Python program that it starts of its JVM. By them pyspark takes the JVM
# that was started ahead. Without them pyspark starts a JVM of its own, and ours idles until the program ends.
GATEWAY_PORT, GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# The variable that names the file into which a JVM writes its port and its secret. Without it the JVM that was started
# ahead ends, or says nothing for as long as we wait; pyspark then starts its own.
CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
# The setting that names the module which forks workers. Without it Spark runs its own, and each worker loads for itself
# what ours has loaded once for all.
DAEMON_SETTING = "spark.python.daemon.module"
# The module that Spark runs where that setting is missing, and that ours ends in.
_DAEMON = "pyspark.daemon"
# What workers run: loaded before they are forked.
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


def pyspark_version() -> str:
    """The version of the installed pyspark, found without loading it; empty where there is none, or it does not say."""
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations if spec else None) or []:
        file = Path(folder) / "version.py"
        found = file.exists() and re.search(r"__version__[^=]*=\s*[\"']([^\"']+)", file.read_text())
        if found:
            return found[1]
    return ""


def is_known() -> bool:
    """Whether the names here were tried with the installed pyspark. With another none of them is used."""
    return ".".join(pyspark_version().split(".")[:2]) in _KNOWN


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
