"""The driver of bench_cluster.py: marks and sweeps in one session, once for each line of its input.

So executors have loaded and compiled everything before a run is timed.

    python benchmarks/cluster_driver.py spark://127.0.0.1:7077 2     a master, and how many executors to take
"""

from __future__ import annotations

import json
import os
import sys

from lakesweep import mark, sweep
from lakesweep.engine.session import build_session
from scenario import REPOSITORY


def main() -> None:
    """Answer each line of the input with the records of a mark and of its sweep, as one line of JSON."""
    # Spark and its JVM may print, too: what answers the benchmark has a stream of its own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    master, executors = sys.argv[1:]
    conf = {
        "spark.cores.max": executors,
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # No run begins before all executors have come.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    spark = build_session(master=master, conf=conf)
    for _ in sys.stdin:
        marked = mark(spark, REPOSITORY, run="clean")
        swept = sweep(spark, REPOSITORY, marked.mark_id)
        print(json.dumps([marked.as_json(), swept.as_json()]), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
