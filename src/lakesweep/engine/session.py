"""Building a SparkSession, for the command line and the tests. Everything else is handed one."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession

from lakesweep.engine.jvm import AheadJvm, take_jvm
from lakesweep.engine.pyspark_internals import has_gateway
from lakesweep.engine.session_settings import (
    DEFAULTS,
    PYTHON_SETTING,
    prepare_environment,
    session_settings,
)
from lakesweep.engine.stdout import stdout_kept_clean
from lakesweep.errors import ConfigError

logger = logging.getLogger(__name__)

# A Connect server's own start is over when we come: what a cluster is told at its start, a session is told by these.
_ARCHIVES = "spark.archives"
_PYTHON_OF_A_SESSION = "spark.sql.execution.pyspark.python"
_CONNECT_PORT = 15002  # where none is named
_CONNECT_SECONDS = 10.0


def build_session(
    *, master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on `master`, or over Spark Connect on `remote`, else on all cores of this machine."""
    archives = ""
    if remote is not None:
        refuse_unreachable(remote)
        builder = SparkSession.builder.appName("lakesweep").remote(remote)
        settings = DEFAULTS | dict(conf or {})
        archives = settings.pop(_ARCHIVES, "")
        if PYTHON_SETTING in settings:
            settings[_PYTHON_OF_A_SESSION] = settings.pop(PYTHON_SETTING)
        jvm = None
    else:
        builder = SparkSession.builder
        settings = session_settings(master, conf)
        prepare_environment(settings)
        jvm = take_jvm(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = _made(builder, jvm)
        if archives:
            session.addArtifacts(*archives.split(","), archive=True)
    except PySparkImportError as error:
        raise ConfigError(
            f"Spark Connect needs more packages than Spark does: {error.getMessage()} Nothing was touched. Run "
            "`pip install 'lakesweep[connect]'`.",
            kind="no-spark",
        ) from error
    except Exception as error:
        where = remote or settings["spark.master"]
        said = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        raise ConfigError(
            f"Spark could not be started on {where}: {said}. Nothing was touched. Check Java (JAVA_HOME), --master or "
            "--remote and --conf; `lakesweep doctor` tries them.",
            kind="no-spark",
        ) from error
    if remote is None:
        session.sparkContext.setLogLevel("ERROR")
    return session


def _made(builder: SparkSession.Builder, jvm: AheadJvm | None) -> SparkSession:
    """Make the session on the JVM that was started ahead; where pyspark can't connect to it, on one that pyspark starts."""
    if jvm is not None:
        is_there = False
        try:
            with jvm.offered() as is_there:
                if is_there:  # it prints on stderr already, and stdout is free for results
                    return builder.getOrCreate()
        except Exception as error:
            if not is_there or has_gateway():
                raise  # pyspark had a JVM, or has tried to start one: another would do no better
            logger.debug("pyspark did not take the JVM that was started ahead: %s", error)
    with stdout_kept_clean():
        return builder.getOrCreate()


def submitted_session() -> SparkSession:
    """The session that `spark-submit` prepared for a job file."""
    with stdout_kept_clean():
        session = SparkSession.builder.appName("lakesweep").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_properties(session: SparkSession) -> dict[str, str]:
    """All properties of a session, those of lakeFS and Hadoop among them."""
    return dict(session.conf.getAll)


def refuse_unreachable(remote: str) -> None:
    """Refuse at once where no Connect server answers: Spark's own client would try for ten minutes."""
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
