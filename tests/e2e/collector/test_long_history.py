"""A long history costs the driver columns, and no object for each commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.collect import run_gc
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.request import MarkRequest, WhatIfRequest
from lakesweep.collector.lakefs.what_if.what_if import run_what_if
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.commits import Commit
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from bench_history import HistoryServer, serve
from long_history import LongHistory

COMMITS = 2_000


@pytest.fixture(scope="module")
def server() -> Iterator[HistoryServer]:
    with serve(LongHistory(COMMITS).build()) as server:
        yield server


@pytest.fixture
def context(server: HistoryServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunContext]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    keys = server.environment["AWS_ACCESS_KEY_ID"], server.environment["AWS_SECRET_ACCESS_KEY"]
    with LakeFSClient(server.s3.url, *keys) as client:
        yield open_repository(
            client, "bench", StorageOptions(s3_endpoint=server.s3.url), InProcessEngine()
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all commits that are made as objects from now on."""
    ids: list[str] = []
    make = Commit.__init__

    def counted(self: Commit, id: str, *args: object, **kwargs: object) -> None:
        ids.append(id)
        make(self, id, *args, **kwargs)

    monkeypatch.setattr(Commit, "__init__", counted)
    return ids


@pytest.mark.search
def test_a_collection_makes_no_object_of_a_commit(
    server: HistoryServer, context: RunContext, made: list[str]
) -> None:
    """Neither its mark nor its sweep; the garbage is exactly what the history was made to leave."""
    history = server.built.history
    record = run_gc(context, MarkRequest(now=history.now), SweepRequest(max_delete_share=100.0))
    assert made == []
    assert server.marked() == history.garbage
    assert record.objects["deleted"] == len(history.garbage)
    assert record.retained_commits == history.retained.sum()
    assert record.retained_commits + record.expired_commits == COMMITS


@pytest.mark.search
def test_a_what_if_makes_no_object_of_a_commit(
    server: HistoryServer, context: RunContext, made: list[str]
) -> None:
    """However many questions it answers of each commit; by the present rules it retains what a mark does."""
    found = run_what_if(context, WhatIfRequest(now=server.built.history.now))
    assert made == []
    assert found.rules[0].retained_commits == server.built.history.retained.sum()


def test_commits_are_counted_when_they_are_made(made: list[str]) -> None:
    """The count that the others rely on."""
    built = LongHistory(100)
    built._commits([f"{n:064x}" for n in range(100)], ["m"] * 2_000)
    assert len(made) == 100
