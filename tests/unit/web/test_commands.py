"""Commands are processes that outlive whoever started them, and whoever comes next knows whether they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.server import LakeServer
from lakesweep.web.commands import MOST_KEPT, Command, Commands, launch_process
from lakesweep_testing.web_site import local_caller

WAITS = """
import sys, time
from pathlib import Path
print("began", file=sys.stderr, flush=True)
while not Path(sys.argv[-1]).exists():
    time.sleep(0.02)
"""

STARTS = """
import sys
from pathlib import Path
from lakesweep.web import commands
commands.sys.executable = sys.argv[1]
commands.launch_process(["wait", sys.argv[3]], {}, Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_a_command_outlives_the_server_that_started_it(tmp_path: Path) -> None:
    """The server is gone, the command runs; when it ends, that is known without anybody's word."""
    program = tmp_path / "program"
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    program.chmod(0o755)
    folder, end = tmp_path / "command", tmp_path / "end"
    folder.mkdir()
    words = [sys.executable, "-c", STARTS, str(program), str(folder), str(end)]
    subprocess.run(words, check=True, env={**os.environ})
    command = _command(folder)
    assert command.is_running
    end.touch()
    _wait_until(lambda: not command.is_running)
    assert command.log == "began\n"
    assert command.record is None


STOPS = """
import sys, time
def main():
    print("began", file=sys.stderr, flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print(*sys.argv[1:], "stopped", file=sys.stderr)
"""


@pytest.mark.slow
def test_a_command_is_stopped_as_ctrl_c_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a shell had the server, and so its commands, ignore that signal."""
    program, folder = tmp_path / "lakesweep" / "cli", tmp_path / "command"
    for made in (program, folder):
        made.mkdir(parents=True)
    (program.parent / "__init__.py").touch()
    (program / "main.py").write_text(STOPS)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        launch_process(["mark", "--", "garden"], {"PYTHONPATH": str(tmp_path)}, folder)
    finally:
        signal.signal(signal.SIGINT, before)
    command = _command(folder)
    _wait_until(lambda: command.log == "began\n")
    command.stop("you")
    _wait_until(lambda: not command.is_running)
    assert command.log == "began\nmark -- garden stopped\n"
    assert command.stopped_by == "you"
    # The system may give its number to any process now.
    (folder / "process").write_text(str(os.getpid()))
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent to another process"))
    with pytest.raises(ConfigError, match="not running any more"):
        command.stop("you")


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_so()


def test_old_commands_leave(server: LakeServer, tmp_path: Path) -> None:
    """The newest stay, the newest first."""
    commands = Commands(tmp_path, lambda *_: None)
    caller = local_caller(server)
    started = [commands.start(caller, "garden", ["mark", str(n)]).id for n in range(MOST_KEPT + 5)]
    kept = [command.id for command in commands.of("garden")]
    assert kept == started[::-1][: len(kept)]
    assert MOST_KEPT <= len(kept) <= MOST_KEPT + 1
    assert commands.of("other") == []


def test_a_folder_that_is_not_whole_is_passed_over(tmp_path: Path) -> None:
    """The command is being started, or what is there is not ours."""
    for name, text in (("a", None), ("b", "{"), ("c", '{"id": "c"}')):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "command.json").write_text(text)
    assert Commands(tmp_path).of("garden") == []


def test_secrets_are_not_among_the_words(server: LakeServer, tmp_path: Path) -> None:
    """A command line can be read by other users, and what is kept of a command by its owner alone."""
    launched: list[tuple[object, ...]] = []
    commands = Commands(tmp_path, lambda *call: launched.append(call))
    started = commands.start(local_caller(server), "garden", ["mark", "--", "garden"])
    words, environment, folder = launched[0]
    assert server.secret_access_key not in str(words)
    assert server.secret_access_key in str(environment)
    assert server.secret_access_key not in (started.folder / "command.json").read_text()
    assert folder == started.folder
    assert started.folder.stat().st_mode & 0o077 == 0


def _command(folder: Path) -> Command:
    from datetime import UTC, datetime

    return Command("x", "garden", ("mark",), "you", datetime.now(UTC), folder)
