"""lakesweep as a program, with one part of its quick start taken out: `bench_start.py` runs it.

The part is named by an environment variable, which the processes that fork workers inherit. They run this module, too,
where the part is one of theirs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "LAKESWEEP_TEST_WITHOUT_PART"
_HERE = Path(__file__)


def without_jvm_ahead() -> None:
    """pyspark starts the JVM when the session is built."""
    from lakesweep.engine import jvm

    jvm._start = lambda *_: None


def without_workers_ahead() -> None:
    """The process that forks workers loads what they need when Spark starts it, with the first task."""
    from lakesweep.engine import jvm

    jvm.WORKER_DAEMON = "none of ours"


def without_own_daemon() -> None:
    """Spark's own daemon forks workers, and each loads for itself what it needs."""
    from lakesweep.engine import session_settings

    session_settings.is_known = lambda: False


def without_class_archive() -> None:
    """The JVM loads its classes out of Spark's jars."""
    from lakesweep.engine import startup

    startup.class_archive = lambda: Path("/none/there.jsa")


def without_jvm_options() -> None:
    """Both compilers of the JVM, and heap and collector as it chooses."""
    from lakesweep.engine import startup

    startup._COMMON = startup._FEW = startup._MANY = ""


def without_begin() -> None:
    """Spark starts with its first job, and not before."""
    from lakesweep.engine.late import LateEngine

    LateEngine.begin = lambda *_: None


def without_zips_last() -> None:
    """The zipped pyspark is found first, as Spark has it."""
    from lakesweep.engine import worker_daemon

    worker_daemon.with_zips_last = list


def without_refused_pandas() -> None:
    """Workers may load pandas."""
    from lakesweep.engine import worker_daemon

    worker_daemon.WithoutPandas.find_spec = lambda *_: None


def without_worker_module() -> None:
    """Each worker loads pyspark's module of workers for itself."""
    from lakesweep.engine import worker_daemon

    worker_daemon.WORKER = "json"  # which is loaded already


def without_frozen_modules() -> None:
    """The collection after every task walks through all modules."""
    import gc

    gc.freeze = lambda: None


OF_DRIVER = {
    "jvm ahead": without_jvm_ahead,
    "workers ahead": without_workers_ahead,
    "own daemon": without_own_daemon,
    "class archive": without_class_archive,
    "JVM options": without_jvm_options,
    "begin": without_begin,
}
OF_DAEMON = {
    "zips last": without_zips_last,
    "refused pandas": without_refused_pandas,
    "worker module": without_worker_module,
    "frozen modules": without_frozen_modules,
}


def run_driver(part: str) -> None:
    """The command line, without the part."""
    if part in OF_DRIVER:
        OF_DRIVER[part]()
    elif part in OF_DAEMON:
        import subprocess

        from lakesweep.engine import jvm, session_settings

        def start_workers(path: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [sys.executable, "-m", _HERE.stem, "ahead", path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                preexec_fn=jvm._ignore_interrupts,
            )

        jvm.WORKER_DAEMON = session_settings.WORKER_DAEMON = _HERE.stem
        jvm._start_workers = start_workers
    from lakesweep.cli.main import main

    main()


def run_daemon(part: str) -> None:
    """The process that forks workers: started by Spark, or ahead."""
    from lakesweep.engine import worker_daemon

    if sys.argv[1] != "ahead":
        OF_DAEMON[part]()
        worker_daemon.main()
        return
    from lakesweep.engine import workers_ahead

    OF_DAEMON[part]()
    del sys.argv[1]
    if part == "zips last":
        workers_ahead.with_zips_last = lambda path: sorted(path, key=lambda e: ".zip" not in e)
    workers_ahead.main()


if __name__ == "__main__":
    is_daemon = sys.argv[1] == "ahead" or sys.argv[1].startswith("pyspark")
    (run_daemon if is_daemon else run_driver)(os.environ[VARIABLE])
