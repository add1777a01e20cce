"""Spark's own Python daemon, with pyspark as it is installed instead of Spark's zipped copy of it.

The daemon forks the workers of this machine. Spark puts its zip in front of everything else, and what comes out of a
zip is compiled again in every process: the better part of a second before the first task runs.
"""

from __future__ import annotations

import os
import sys


def prefer_installed(path: list[str]) -> list[str]:
    """The search path with zips of pyspark behind everything else: they still serve where pyspark is not installed."""
    zips = [entry for entry in path if os.path.basename(entry) == "pyspark.zip"]
    return [entry for entry in path if entry not in zips] + zips


if __name__ == "__main__":
    sys.path[:] = prefer_installed(sys.path)
    from pyspark.daemon import manager

    manager()
