"""Commands of `lakesweep nessie` run in this process, with no settings but the test's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.main import run
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep_testing.inprocess import InProcessEngine

PREFIXES = ("LAKESWEEP_", "LAKECTL_", "NESSIE_", "AWS_", "AZURE_", "GOOGLE_", "XDG_")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine; the test's folder is home and where it runs."""
    for name in list(os.environ):
        if name.startswith(PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)


@dataclass
class Shell:
    """Runs commands and keeps what they said."""

    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def __call__(self, *words: str, status: int = 0) -> str:
        """stdout of a command that exits as expected."""
        found = run(["nessie", *words])
        self.out, self.err = self.capsys.readouterr()
        assert found == status, f"{words} exited with {found}\n{self.out}\n{self.err}"
        return self.out


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell for one test."""
    return Shell(capsys)


@pytest.fixture
def database(shell: Shell, tmp_path: Path) -> str:
    """The URL of a database with the tables of live sets."""
    url = f"sqlite:///{tmp_path}/live-sets.db"
    shell("create-sql-schema", "--jdbc-url", url)
    return url


@dataclass
class Asked:
    """What a run would have been asked: nothing is run."""

    calls: list[tuple[NessieContext, ExpireRequest, Any]] = field(default_factory=list)

    @property
    def context(self) -> NessieContext:
        return self.calls[-1][0]

    @property
    def request(self) -> ExpireRequest:
        return self.calls[-1][1]

    @property
    def client(self) -> Any:
        return self.calls[-1][2]

    def answer(self, context: NessieContext, request: ExpireRequest, client: Any) -> RunRecord:
        self.calls.append((context, request, client))
        at = datetime(2026, 5, 1, tzinfo=UTC)
        return RunRecord(
            repository="http://nessie.example/api/v2",
            run_id=request.live_set_id,
            mark_id=request.live_set_id,
            what="nessie",
            flow="immediate",
            status=RunStatus.SWEPT,
            started_at=at,
            finished_at=at.replace(second=7),
        ).counted({"listed": 9, "live": 6, "garbage": 3, "deleted": 3}, {})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Sweeps are noted and not run, so no Spark is started beside them."""
    noted = Asked()
    engine = InProcessEngine()
    monkeypatch.setattr("lakesweep.cli.nessie.context.start_engine", lambda *words: engine)
    monkeypatch.setattr("lakesweep.collector.nessie.expire.expire", noted.answer)
    monkeypatch.setattr("lakesweep.collector.nessie.deferred.delete_deferred", noted.answer)
    return noted


MakeSet = Callable[..., str]
