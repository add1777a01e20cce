"""A daemon of workers that is started before Spark asks for one, and waits to be given its part: run as a module.

It goes when the driver does (its standard input closes), unless Spark has taken it by then: after that it goes with
Spark.
"""

from __future__ import annotations

import os
import select
import socket
import sys

from lakesweep.engine.handover import take_over
from lakesweep.engine.pyspark_internals import run_daemon, with_zips_last
from lakesweep.engine.worker_daemon import load_ahead


def main() -> None:
    """Listen at the path that is our one word, load, and serve whoever comes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(1)
    load_ahead()
    if listener not in select.select([listener, sys.stdin], [], [])[0]:
        return  # the driver has gone, and nobody else will come
    connection = take_over(listener)
    with connection:
        # What Spark adds to the search path comes after what we have, as in `with_zips_last`.
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = with_zips_last([*sys.path, *(e for e in given if e and e not in sys.path)])
        run_daemon()


if __name__ == "__main__":
    main()
