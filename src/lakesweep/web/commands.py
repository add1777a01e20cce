"""Commands of lakesweep that the pages started, each a process of its own with a folder for what it says.

A command has a session of its own: it goes on when the server of the pages ends, however that ends, and whatever serves
the pages next finds it here. What a command may do is decided by the command, with its own guards and lease. While it
runs it holds a lock on a file in its folder; so a number that the system gave to another process can't be mistaken for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakesweep.collector.record import RunRecord, decode_record
from lakesweep.domain.durations import format_time, parse_time
from lakesweep.errors import ConfigError, FormatError
from lakesweep.json_text import parse_json
from lakesweep.web.callers import Caller

__all__ = ["Command", "Commands", "Launch", "launch_process"]

MOST_RUNNING = 4
# A shell that starts a server in the background has it and its commands ignore Ctrl-C; these are stopped by that signal.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from lakesweep.cli.main import main; main()"
)
MOST_KEPT = 50
_MOST_LOG_BYTES = 64 * 1024

Launch = Callable[[Sequence[str], Mapping[str, str], Path], None]
"""Start a command with these words and this environment, its output and its lock in this folder."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command that was started. `words` are what follows `lakesweep` on a command line."""

    id: str
    repository: str
    words: tuple[str, ...]
    started_by: str
    started_at: datetime
    folder: Path

    @property
    def purpose(self) -> str:
        """`mark`, `sweep`, `resume`, `backup`, `explain` or `what-if`."""
        return next(word for word in self.words if word != "runs")

    @property
    def is_running(self) -> bool:
        """Whether its process is there. It holds the lock for as long as it lives."""
        try:
            with (self.folder / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    @property
    def stopped_by(self) -> str:
        """Who asked it to stop; empty where nobody did."""
        return _tail(self.folder / "stopped_by")

    def stop(self, by: str) -> None:
        """Have its process end as Ctrl-C does: it stops its tasks, and writes its record.

        Raises:
            ConfigError: it has no process that could be asked.
        """
        try:
            process = int((self.folder / "process").read_text())
            if not self.is_running:
                raise ProcessLookupError
            # It held the lock a moment ago, so the number is still its own.
            os.kill(process, signal.SIGINT)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"This {self.purpose} is not running any more, or only just begins. Nothing was stopped.",
                kind="not-running",
            ) from error
        (self.folder / "stopped_by").write_text(by)

    @property
    def log(self) -> str:
        """The end of what it logged."""
        return _tail(self.folder / "stderr")

    @property
    def printed(self) -> str:
        """The end of what it printed; empty when it was refused, or killed."""
        return _tail(self.folder / "stdout")

    @property
    def progress(self) -> dict[str, Any] | None:
        """How far it is, as `ProgressSnapshot.as_json` has it; None before its first phase."""
        try:
            found: dict[str, Any] = parse_json((self.folder / "progress.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found

    @property
    def record(self) -> RunRecord | None:
        """The record that it printed at its end; None while it runs, and when it was killed."""
        try:
            return decode_record((self.folder / "stdout").read_bytes(), self.id)
        except (OSError, FormatError):
            return None


class Commands:
    """The commands that were started on one server's repositories, kept in one folder."""

    def __init__(self, folder: Path, launch: Launch | None = None) -> None:
        self._folder = folder
        self._launch = launch or launch_process
        self._lock = threading.Lock()

    def start(self, caller: Caller, repository: str, words: Sequence[str]) -> Command:
        """Start `lakesweep WORDS` as the caller; returns as soon as its process is there.

        Raises:
            ConfigError: enough of them are running.
        """
        with self._lock:
            running = sum(command.is_running for command in self._all())
            if running >= MOST_RUNNING:
                raise ConfigError(
                    f"{running} commands that were started here are still running, and each may need a Spark of its "
                    "own. Nothing was started. Wait for one to end, or use the command line.",
                    kind="too-many-running",
                )
            self._prune()
            return self._start(caller, repository, tuple(words))

    def _start(self, caller: Caller, repository: str, words: tuple[str, ...]) -> Command:
        started_at = datetime.now(UTC)
        # Ids sort by time.
        command_id = f"{time.time_ns() // 1000:016x}{os.urandom(4).hex()}"
        folder = self._folder / command_id
        folder.mkdir(parents=True, mode=0o700)
        command = Command(command_id, repository, words, caller.name, started_at, folder)
        values = asdict(command) | {"started_at": format_time(started_at)}
        del values["folder"]
        (folder / "command.json").write_text(json.dumps(values))
        told = {"LAKESWEEP_PROGRESS_FILE": str(folder / "progress.json")}
        self._launch(words, {**caller.environment, **told}, folder)
        return command

    def of(self, repository: str) -> list[Command]:
        """Those of one repository, the newest first."""
        return [command for command in self._all() if command.repository == repository]

    def get(self, repository: str, command_id: str) -> Command:
        """One of a repository's.

        Raises:
            ConfigError: there is none of that id.
        """
        for command in self.of(repository):
            if command.id == command_id:
                return command
        raise ConfigError(
            f"No command {command_id!r} was started here on {repository}, or its files are gone. "
            "The run itself is among the runs.",
            kind="no-command",
        )

    def _all(self) -> list[Command]:
        found = [_read(folder) for folder in sorted(self._folder.glob("*"), reverse=True)]
        return [command for command in found if command is not None]

    def _prune(self) -> None:
        for command in self._all()[MOST_KEPT:]:
            if not command.is_running:
                shutil.rmtree(command.folder, ignore_errors=True)


def launch_process(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    """Start the command in a process that outlives this one."""
    with (
        (folder / "lock").open("wb") as lock,
        (folder / "stdout").open("wb") as out,
        (folder / "stderr").open("wb") as err,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The process inherits the open file, and so the lock; this one's share of it ends with the block.
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(environment),
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
        (folder / "process").write_text(str(process.pid))
    # Somebody has to take note of its end, or it stays in the system's table.
    threading.Thread(target=process.wait, name=f"command-{process.pid}", daemon=True).start()


def _read(folder: Path) -> Command | None:
    """The command of a folder; None where it is not there yet, or not whole."""
    try:
        values = parse_json((folder / "command.json").read_text())
        values["started_at"] = parse_time(values["started_at"])
        values["words"] = tuple(values["words"])
        return Command(**values, folder=folder)
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return None


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _MOST_LOG_BYTES))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
