"""A repository with garbage of every kind on an embedded lake, and commands run on it in this process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from lakesweep.cli.main import run
from lakesweep.testing.user import User

__all__ = ["Captured", "Repository", "Shell"]

OLD_DAYS = 3


class Captured(Protocol):
    """What pytest's `capsys` is used for."""

    def readouterr(self) -> tuple[str, str]: ...


@dataclass
class Repository:
    """What a test needs to know of one: its user, its files, and which paths became garbage."""

    user: User
    folder: Path  # the storage namespace
    first_commit: str
    expired: str  # address of an object that only expired commits hold
    unreferenced: str
    live: str

    @property
    def name(self) -> str:
        return self.user.repository

    def has(self, address: str) -> bool:
        return (self.folder / address).exists()

    def make_old(self) -> None:
        """Give every data file a time long enough ago; no clock is moved."""
        at = (datetime.now(UTC) - timedelta(days=OLD_DAYS)).timestamp()
        for path in (self.folder / "data").rglob("*"):
            if path.is_file():
                os.utime(path, (at, at))


@dataclass
class Shell:
    """Runs commands in this process; a session of Spark is started once for all of them."""

    capsys: Captured
    err: str = ""

    def run(self, *words: str, status: int = 0) -> str:
        """stdout of a command that exits as expected."""
        found = run(list(words))
        out, err = self.capsys.readouterr()
        assert found == status, f"{words} exited with {found}\n{out}\n{err}"
        self.err = err
        return out

    def json(self, *words: str, status: int = 0) -> Any:
        """The one JSON document that a command prints."""
        return json.loads(self.run(*words, "--output", "json", status=status))
