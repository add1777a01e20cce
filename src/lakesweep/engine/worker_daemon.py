"""Spark's own Python daemon, made quicker: it forks the workers of this machine, which find loaded what all need.

Spark puts its zipped copy of pyspark in front of everything else, and what comes out of a zip is compiled again in
every process: the better part of a second before the first task runs. Here the installed pyspark goes first.

Loading takes a second, too, and Spark starts the daemon with its first task. So the driver may start one ahead
(workers_ahead.py), beside the JVM. The one that Spark starts then only hands over to it.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from lakesweep.engine.handover import hand_over
from lakesweep.engine.pyspark_internals import WORKER, run_daemon, with_zips_last

# Loading these starts no thread, which a fork would leave behind.
_NEEDED = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "lakesweep.engine.spark",
    "lakesweep.storage",
)


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
    for name in (*_NEEDED, WORKER):
        importlib.import_module(name)
    import pyarrow as pa

    from lakesweep.formats.hashing import hash_addresses

    hash_addresses(pa.array(["any"], pa.string()))
    # Workers share these pages for as long as nobody writes to them, which a walk of the collector would.
    gc.freeze()


def main() -> None:
    """Run as Spark's Python daemon: hand over to one that was started ahead, or load what workers need and fork them."""
    if hand_over():
        return
    sys.path[:] = with_zips_last(sys.path)
    load_ahead()
    run_daemon()


if __name__ == "__main__":
    main()
