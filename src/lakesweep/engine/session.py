"""Building a SparkSession, for the command line and the tests. Everything else is handed one."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession

from lakesweep.engine.startup import quick_start_options
from lakesweep.errors import ConfigError
from lakesweep.java import find_java_home

logger = logging.getLogger(__name__)

# What a single machine needs and a cluster's own settings may override.
LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "lakesweep.engine.worker_daemon",
}

DEFAULTS = {
    # Arrow batches of cells are few and large; the JVM must not split or copy them row by row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.session.timeZone": "UTC",
}

_CONNECT_PORT = 15002  # where none is named
_CONNECT_SECONDS = 10.0


def build_session(
    *, master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on `master`, or over Spark Connect on `remote`, else on all cores of this machine."""
    builder = SparkSession.builder.appName("lakesweep")
    if remote is not None:
        refuse_unreachable(remote)
        builder = builder.remote(remote)
        settings = dict(DEFAULTS)
    else:
        master = master or (conf or {}).get("spark.master") or "local[*]"
        builder = builder.master(master)
        settings = DEFAULTS | (LOCAL_DEFAULTS if master.startswith("local") else {})
        os.environ["JAVA_HOME"] = str(find_java_home())
        # Workers must find the same packages as the driver does.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            # Without it Spark looks the host's name up, which fails on machines that have none.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.driver.extraJavaOptions"] = quick_start_options()
    for key, value in (settings | dict(conf or {})).items():
        builder = builder.config(key, value)
    try:
        with _stdout_kept_clean():
            session = builder.getOrCreate()
    except PySparkImportError as error:
        raise ConfigError(
            f"Spark Connect needs more packages than Spark does: {error.getMessage()} Nothing was touched. Run "
            "`pip install 'lakesweep[connect]'`.",
            kind="no-spark",
        ) from error
    if remote is None:
        session.sparkContext.setLogLevel("ERROR")
    return session


def submitted_session() -> SparkSession:
    """The session that `spark-submit` prepared for a job file."""
    with _stdout_kept_clean():
        session = SparkSession.builder.appName("lakesweep").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_properties(session: SparkSession) -> dict[str, str]:
    """All properties of a session, those of lakeFS and Hadoop among them."""
    return dict(session.conf.getAll)


def refuse_unreachable(remote: str) -> None:
    """A Connect server that is not there is told at once: Spark's own client tries for ten minutes."""
    place = urlsplit(remote)
    if place.scheme != "sc" or not place.hostname:
        return
    if getproxies() and not proxy_bypass(place.hostname):
        return  # the way leads through a proxy, and a plain connection proves nothing
    port = place.port or _CONNECT_PORT
    try:
        socket.create_connection((place.hostname, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            f"No Spark Connect server answers at {place.hostname}:{port} ({error}). Nothing was touched. Check --remote.",
            kind="no-spark",
        ) from error


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """A JVM that starts inside the block writes to our stderr what it would write to our stdout, which has results."""
    sys.stdout.flush()
    try:
        ours = os.dup(1)
    except OSError:
        yield  # there is no stdout to keep clean
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)
