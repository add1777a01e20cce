"""A lake served in this process, a repository with garbage of every kind, and the commands pointed at it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository, Shell, lake_environment, new_repository


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture(scope="module")
def make_repository(server: LakeServer) -> Iterator[Callable[[str], Repository]]:
    """`make_repository("name")`: one expired object, one that was never committed, one that lives."""
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth, timeout=60) as api:
        yield lambda name: new_repository(server, api, name)


@pytest.fixture
def environment(server: LakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a user of lakectl has it, and the folder that the server keeps local:// namespaces in."""
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_", "AZURE_", "GOOGLE_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", str(tmp_path / "none.yaml"))
    for name, value in lake_environment(server).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def shell(environment: None, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)
