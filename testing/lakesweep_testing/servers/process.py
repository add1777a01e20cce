"""Start a server process, wait until it answers, stop it by its process id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

__all__ = ["ServerError", "ServerProcess", "clean_environment", "free_port"]

START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 10.0
START_ATTEMPTS = 3

# A developer's own credentials and settings must neither reach a test server nor change what it does.
_FOREIGN_PREFIXES = (
    *("LAKEFS_", "LAKECTL_", "MINIO_", "AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "PG"),
    *("NESSIE_", "QUARKUS_", "MYSQL_", "MARIADB_"),
)


class ServerError(RuntimeError):
    """A server did not start; the message ends with what it logged last."""


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment(folder: Path) -> dict[str, str]:
    """This process's environment without other servers' settings, at home in `folder`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN_PREFIXES)}
    return kept | {"HOME": str(folder), "NO_PROXY": "127.0.0.1,localhost"}


class ServerProcess:
    """One server. Subclasses say how it is started and when it is ready.

    Between choosing a free port and binding it another process may take it, so a server that ends at once
    is started again on another port.

    Args:
        within: where its folder is made; None makes it among the temporary ones.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, within: Path | None = None) -> None:
        self.port = 0
        self.folder = Path()
        self._within = within
        self._process: subprocess.Popen[bytes] | None = None

    # What a subclass answers.

    def prepare(self) -> None:
        """Make what must be in `self.folder` before the first start."""

    def command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Variables on top of `clean_environment`."""
        return {}

    def is_ready(self) -> bool:
        raise NotImplementedError

    def run_as(self) -> str | None:
        """The user to run as, where it is not ours."""
        return None

    # What a caller uses.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process.pid

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix=f"lakesweep-{self.name}-", dir=self._within))
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clean_up()

    def start(self, *, port: int | None = None) -> None:
        """Start and wait until ready; `port` keeps the address of a server that was stopped before."""
        for attempt in range(START_ATTEMPTS):
            self.port = port or free_port()
            self._launch()
            if self._wait_until_ready():
                return
            if attempt + 1 < START_ATTEMPTS:
                self.stop()
        tail = self.log_tail()
        self.stop()
        raise ServerError(f"{self.name} did not start on {self.url}; it logged:\n{tail}")

    def restart(self) -> None:
        """Stop and start again with the same data and address."""
        self.stop()
        self.start(port=self.port)

    def stop(self) -> None:
        """Ask it to end, then make it."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(self.stop_signal)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End it without a word, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self, lines: int = 30) -> str:
        try:
            return "\n".join(self.log_file.read_text("utf-8", "replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(nothing)"

    def answers(self, url: str, status: int = 200) -> bool:
        """Whether a GET of `url` gives `status`; any failure to connect is a no."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=2) as reply:
                return bool(reply.status == status)
        except urllib.error.HTTPError as refusal:
            return refusal.code == status
        except OSError:
            return False

    def _launch(self) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in self.command()],
                cwd=self.folder,
                env={**clean_environment(self.folder), **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self.run_as(),
                # Ctrl-C in the terminal is for pytest, which then stops servers in order.
                start_new_session=True,
            )

    def _wait_until_ready(self) -> bool:
        process = self._process
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while process is not None and process.poll() is None and time.monotonic() < deadline:
            if self.is_ready():
                return True
            time.sleep(0.1)
        return False

    def _clean_up(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
