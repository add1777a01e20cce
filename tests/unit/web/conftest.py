"""A lake with a repository of every kind of garbage, and pages over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from lakesweep.lake.server import LakeServer
from lakesweep_testing.commands import Repository, new_repository
from lakesweep_testing.web_site import Browser, Pages, browse, local_caller


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture(scope="session")
def make_repository(server: LakeServer) -> Iterator[Callable[[str], Repository]]:
    """`make_repository("name")`: one expired object, one that was never committed, one that lives."""
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth, timeout=60) as api:
        yield lambda name: new_repository(server, api, name)


@pytest.fixture(scope="session")
def repository(make_repository: Callable[[str], Repository]) -> Repository:
    """One that tests only read and mark."""
    return make_repository("garden")


@pytest.fixture
def pages(server: LakeServer, repository: Repository, tmp_path: Path) -> Pages:
    return browse(local_caller(server), tmp_path)


@pytest.fixture
def browser(pages: Pages) -> Browser:
    return pages.browser()
