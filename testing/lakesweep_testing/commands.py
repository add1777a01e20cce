"""A repository with garbage of every kind on an embedded lake, and commands run on it, in this process or in their own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from lakesweep.cli.main import run
from lakesweep.collector.lakefs.paths import EVENTS
from lakesweep.lake.server import LakeServer
from lakesweep_testing.user import User

__all__ = [
    *("Captured", "Repository", "Shell", "lake_environment", "new_repository"),
    "run_to_end",
]

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
        """Give every data file, deletion and restore a time long enough ago; no clock is moved."""
        at = (datetime.now(UTC) - timedelta(days=OLD_DAYS)).timestamp()
        events = self.folder / EVENTS
        for folder in list(events.iterdir()) if events.exists() else []:
            order, _, rest = folder.name.partition("-")
            earlier = int(order) - OLD_DAYS * 24 * 3600 * 1000
            folder.rename(events / f"{earlier:015d}-{rest}")
        for path in (self.folder / "data").rglob("*"):
            if path.is_file():
                os.utime(path, (at, at))


def new_repository(server: LakeServer, api: httpx.Client, name: str) -> Repository:
    """A repository with one expired object, one that was never committed, one that lives."""
    user = User.create(api, name, f"local://{name}")
    user.set_rules(7)
    addresses = {path: user.upload("main", path) for path in ("expired", "live")}
    first = user.commit("main", days=40)
    user.delete("main", "expired")
    user.commit("main", days=30)
    addresses["unreferenced"] = user.upload("main", "unreferenced", "first try")
    user.upload("main", "unreferenced", "second try")
    relative = {p: a.removeprefix(f"local://{name}/") for p, a in addresses.items()}
    repository = Repository(user, server.lake.settings.data_dir / name, first, **relative)
    repository.make_old()
    return repository


def lake_environment(server: LakeServer) -> dict[str, str]:
    """As a user of lakectl has it, and the folder that the server keeps local:// namespaces in."""
    return {
        "LAKECTL_SERVER_ENDPOINT_URL": server.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_access_key,
        "LAKESWEEP_NAMESPACE_ROOT": str(server.lake.settings.data_dir),
    }


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


def run_to_end(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A program that has ended, run in a folder away from the sources, with what it printed."""
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
