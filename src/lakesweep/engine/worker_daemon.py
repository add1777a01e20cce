"""Spark's own Python daemon, made quicker: it forks the workers of this machine, which find loaded what all need.

Spark puts its zipped copy of pyspark in front of everything else, and what comes out of a zip is compiled again in
every process: the better part of a second before the first task runs. Here the installed pyspark goes first.

Loading takes a second, too, and Spark starts the daemon with its first task. So the driver may start one ahead
(workers_ahead.py), beside the JVM. The one that Spark starts then only hands over to it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from lakesweep.engine.handover import hand_over

# Loading these starts no thread, which a fork would leave behind.
_NEEDED = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.worker",
    "lakesweep.engine.spark",
    "lakesweep.storage",
)


def prefer_installed(path: list[str]) -> list[str]:
    """The search path with zips of pyspark behind everything else: they still serve where pyspark is not installed."""
    zips = [entry for entry in path if os.path.basename(entry) == "pyspark.zip"]
    return [entry for entry in path if entry not in zips] + zips


class WithoutPandas:
    """pandas is never there: pyarrow loads it when it first sees a list, and no work function has a use for it.

    That is a fifth of a second and 40 MiB in every worker.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Part of the import system: refuses pandas, and leaves the rest to others."""
        if name == "pandas":
            raise ModuleNotFoundError("workers of lakesweep do without pandas", name=name)
        return None


def load_ahead() -> None:
    """Load what every worker needs, compiled code included, once for all of them."""
    sys.meta_path.insert(0, WithoutPandas())
    for name in _NEEDED:
        importlib.import_module(name)
    import pyarrow as pa

    from lakesweep.formats.hashing import hash_addresses

    hash_addresses(pa.array(["any"], pa.string()))
    # Workers share these pages for as long as nobody writes to them, which a walk of the collector would.
    gc.freeze()


def main() -> None:
    """As Spark starts it."""
    if hand_over():
        return
    sys.path[:] = prefer_installed(sys.path)
    load_ahead()
    serve()


def serve() -> None:
    """Fork workers for Spark until it closes our standard input."""
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
