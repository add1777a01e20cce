"""The JVM of a session to come, started ahead: it loads while this program still loads itself and asks the server.

It is the process that pyspark would start, with the same words. pyspark connects to one that is there already if the
environment names its port and secret, as `spark-submit` does. Beside it the process loads that will fork its workers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakesweep.engine.handover import SOCKET_VARIABLE
from lakesweep.engine.pyspark_internals import (
    CONNECTION_FILE,
    DAEMON_SETTING,
    GATEWAY_PORT,
    GATEWAY_SECRET,
    has_gateway,
    is_known,
)
from lakesweep.engine.session_settings import (
    WORKER_DAEMON,
    prepare_environment,
    session_settings,
)
from lakesweep.engine.startup import spark_home
from lakesweep.errors import ConfigError

_POLL_SECONDS = 0.02
_MOST_SECONDS = 60.0  # a JVM that says nothing for so long never will
_LONGEST_SOCKET_PATH = 100  # a little less than what systems allow


class AheadJvm:
    """A JVM that starts early. `abandon` ends one that nobody takes, and so does the end of this process."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self._folder = Path(tempfile.mkdtemp(prefix="lakesweep-jvm-"))
        self._told = self._folder / "connection"
        words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        environment = {**os.environ, "SPARK_CONNECT_MODE": "0", CONNECTION_FILE: str(self._told)}
        self._workers: subprocess.Popen[bytes] | None = None
        path = str(self._folder / "workers")
        if settings.get(DAEMON_SETTING) == WORKER_DAEMON and len(path) <= _LONGEST_SOCKET_PATH:
            environment[SOCKET_VARIABLE] = path
            self._workers = _start_workers(path)
        submit = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        try:
            self._process = subprocess.Popen(
                [home / "bin" / "spark-submit", *words, *submit],
                stdin=subprocess.PIPE,  # the JVM ends when it closes
                stdout=2,  # our own stdout has results
                env=environment,
                # Ctrl-C is for this process, which tells the JVM what to do about it.
                preexec_fn=_ignore_interrupts,
            )
        except OSError:
            self._end(self._workers)
            raise

    @contextlib.contextmanager
    def offered(self) -> Iterator[bool]:
        """Wait for the JVM; pyspark takes it for its own if it starts a session inside the block.

        False where the JVM is gone or says nothing: then pyspark starts one itself, and says what is wrong with it.
        """
        end = time.monotonic() + _MOST_SECONDS
        while not self._told.exists() and self._process.poll() is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        told = self._told.read_bytes() if self._told.exists() else b""
        self._told.unlink(missing_ok=True)  # it holds a secret
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        if not told:
            self.abandon()
            yield False
            return
        port, length = struct.unpack_from(">ii", told)
        os.environ[GATEWAY_PORT] = str(port)
        os.environ[GATEWAY_SECRET] = told[8 : 8 + length].decode()
        try:
            yield True
        finally:
            del os.environ[GATEWAY_PORT], os.environ[GATEWAY_SECRET]

    def abandon(self) -> None:
        """End the JVM now."""
        self._end(self._process, self._workers)

    def _end(self, *processes: subprocess.Popen[bytes] | None) -> None:
        for process in processes:
            if process is not None:
                with process:
                    process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


_ahead: AheadJvm | None = None
# A JVM in use ends when its standard input does, so what holds that must last as long as this process.
_taken: list[AheadJvm] = []


@contextlib.contextmanager
def jvm_ahead(master: str | None, conf: Mapping[str, str] | None) -> Iterator[None]:
    """Start a JVM for a session with these settings beside the block; one that nobody has taken by its end is ended."""
    global _ahead
    _ahead = _ahead or _start(master, conf)
    try:
        yield
    finally:
        if _ahead is not None:
            _ahead.abandon()
            _ahead = None


def _start(master: str | None, conf: Mapping[str, str] | None) -> AheadJvm | None:
    """Start a JVM; None where there is one already, where this pyspark was never tried, or where Java is missing."""
    home = spark_home()
    if home is None or has_gateway() or not is_known():
        return None
    try:
        settings = session_settings(master, conf)
        prepare_environment(settings)
        return AheadJvm(home, settings)
    except (ConfigError, OSError):
        return None


def take_jvm(settings: Mapping[str, str]) -> AheadJvm | None:
    """The JVM that was started ahead with these settings, for its first caller; None for all others."""
    global _ahead
    if _ahead is None or _ahead.settings != dict(settings):
        return None
    jvm, _ahead = _ahead, None
    _taken.append(jvm)
    return jvm


def _start_workers(path: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [os.environ["PYSPARK_PYTHON"], "-m", "lakesweep.engine.workers_ahead", path],
        stdin=subprocess.PIPE,  # it ends when this closes, unless Spark has taken it
        stdout=subprocess.DEVNULL,
        preexec_fn=_ignore_interrupts,
    )


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
