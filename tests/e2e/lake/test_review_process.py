"""Reviews in a process of their own: begun when wanted, replaced when dead, counted by the server, gone with it."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from functools import partial
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import psutil
import pytest

from lakesweep.lake.context import partition_of
from lakesweep.lake.hard_delete.reviewer import _LEASE_KEY
from lakesweep.lake.lake import Lake
from lakesweep.lake.records import decode_record
from lakesweep.lake.review_process import review_until_told, reviewing_elsewhere
from lakesweep.lake.server import open_lake
from lakesweep.lake.values import LakeSettings

_OFTEN = 0.05
# A process loads for seconds, and has the lowest priority while it does so beside other tests.
_LONGEST = 200.0
pytestmark = pytest.mark.timeout(500)
_KEYS = {
    "LAKESWEEP_SERVE_ACCESS_KEY_ID": "AKIAREVIEWED",
    "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": "secret-of-reviews",
}


def _wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(_OFTEN)


def _holder(lake: Lake) -> str:
    """Who has, or had, the lease for reviews of the repository."""
    kv, repository = lake.reviewer._context.kv, lake.repositories.get("repo")
    raw = kv.get(partition_of(repository), _LEASE_KEY)
    assert raw is not None
    return str(decode_record(raw)["holder"])


def _reviewers() -> list[BaseProcess]:
    """Processes that review for this one, none that another test has left behind."""
    return [one for one in multiprocessing.active_children() if one.name == "lake-reviewer"]


def _started_by(server: int) -> list[psutil.Process]:
    return psutil.Process(server).children(recursive=True)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    settings = LakeSettings(tmp_path / "lake", hard_delete=True, delete_grace=timedelta(0))
    with closing(open_lake(settings)) as lake:
        lake.repositories.create("repo", "local://repo")
        yield lake


def _overwrite(lake: Lake) -> Callable[[], bool]:
    """Write a path twice; whether the bytes of the first time are gone."""
    repository = lake.writable("repo")
    data = lake.settings.data_dir / "repo" / "data"
    earlier = set(data.rglob("*"))
    lake.objects.upload(repository, "main", "path", [b"first"])
    (first,) = (file for file in set(data.rglob("*")) - earlier if file.is_file())
    lake.objects.upload(repository, "main", "path", [b"second"])
    return lambda: not first.exists()


def _reviewing(lake: Lake) -> AbstractContextManager[None]:
    opened = partial(open_lake, lake.settings)
    review = partial(
        review_until_told, opened=opened, set_up_logging=faulthandler.enable, every_seconds=_OFTEN
    )
    return reviewing_elsewhere(lake.reviewer, review, _OFTEN)


def test_another_process_reviews_and_this_one_counts(lake: Lake) -> None:
    """Also what was done after the first process had been killed is done, and all of it is counted."""
    with _reviewing(lake):
        is_gone = _overwrite(lake)
        _wait_for(is_gone)
        _wait_for(lambda: lake.reviewer.counts.deleted_objects == 1)
        (reviewer,) = _reviewers()
        assert psutil.Process(reviewer.pid).nice() > psutil.Process().nice()
        holder = _holder(lake)
        reviewer.kill()
        _wait_for(_overwrite(lake))
        (another,) = _reviewers()
        assert another.pid != reviewer.pid
        assert _holder(lake) == holder, "the lease of the dead one was waited for"
        _wait_for(lambda: lake.reviewer.counts.deleted_objects == 3)  # each write over another
    assert lake.reviewer.counts.deleted_bytes == len(b"firstsecondfirst")
    assert lake.reviewer.counts.latencies.total() == 3
    assert not _reviewers()


@pytest.mark.search
def test_no_process_where_nobody_wants_reviews(tmp_path: Path) -> None:
    """It begins when a repository does."""
    with closing(open_lake(LakeSettings(tmp_path, delete_grace=timedelta(0)))) as lake:
        lake.repositories.create("repo", "local://repo")
        with _reviewing(lake):
            is_gone = _overwrite(lake)
            time.sleep(20 * _OFTEN)
            assert not _reviewers()
            assert not is_gone()
            lake.repositories.set_hard_delete("repo", True)
            _wait_for(_overwrite(lake))


@pytest.mark.search
def test_a_start_that_fails_is_tried_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have no room for a process, or for its pipe; a server that stops then has nothing to end."""
    tried: list[bool] = []
    real = SpawnProcess.start

    def start(process: SpawnProcess) -> None:
        tried.append(has_room.is_set())
        if not tried[-1]:
            raise BlockingIOError("no more processes")
        real(process)

    monkeypatch.setattr(SpawnProcess, "start", start)
    has_room = threading.Event()
    with _reviewing(lake):
        _wait_for(lambda: len(tried) >= 2)
    assert not any(tried)
    with _reviewing(lake):
        is_gone = _overwrite(lake)
        _wait_for(lambda: len(tried) >= 4)
        has_room.set()
        _wait_for(is_gone)


@pytest.mark.search
def test_killed_server_leaves_no_reviewer(tmp_path: Path) -> None:
    """`lakesweep serve --hard-delete` reviews beside its requests, and the reviewer goes with it."""
    words = [
        "serve",
        "--data",
        str(tmp_path),
        "--port",
        "0",
        "--hard-delete",
        "--delete-grace",
        "0s",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "lakesweep", *words],
        env=os.environ | _KEYS,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=f"{url}/api/v1", auth=tuple(_KEYS.values())) as user:
            place = {"name": "repo", "storage_namespace": "local://repo"}
            assert user.post("/repositories", json=place).is_success
            objects = "/repositories/repo/branches/main/objects?path=a"
            assert user.post(objects, content=b"first").is_success
            assert user.post(objects, content=b"second").is_success
            data = tmp_path / "repo" / "data"
            _wait_for(lambda: sum(file.is_file() for file in data.rglob("*")) == 1)
            told = "lakesweep_lake_hard_deleted_objects_total 1"
            _wait_for(lambda: told in httpx.get(f"{url}/metrics", auth=user.auth).text)
        reviewers = _started_by(process.pid)
        assert reviewers
        process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(reviewers, timeout=_LONGEST)
        for left in alive:
            left.kill()
        assert not alive
    finally:
        process.kill()
        process.communicate()
