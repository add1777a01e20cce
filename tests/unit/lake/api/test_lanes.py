"""Look-ups that need not wait are done by the event loop itself; all others in a thread, with the same answer."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest

from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore
from lakesweep.storage.waiting import WouldWait, about_to_wait, try_at_once
from lakesweep_testing.lakes import LakeRepo


def _threads_of_look_up(*, is_remote: bool, waits: bool) -> list[bool]:
    """For each time that the look-up ran, whether that was the event loop's thread."""
    ran: list[bool] = []
    here = threading.get_ident()

    def work() -> str:
        ran.append(threading.get_ident() == here)
        if waits:
            about_to_wait()
        return "found"

    lake = LakeRepo().lake
    lake.kv.is_remote = is_remote
    assert anyio.run(Lanes(lake).look_up, work) == "found"
    return ran


def test_look_up_that_need_not_wait_changes_no_thread() -> None:
    """Unless the ref store is another machine's."""
    assert _threads_of_look_up(is_remote=False, waits=False) == [True]
    assert _threads_of_look_up(is_remote=True, waits=False) == [False]


def test_look_up_that_would_wait_is_done_in_a_thread() -> None:
    """It is begun anew there."""
    assert _threads_of_look_up(is_remote=False, waits=True) == [True, False]


def test_ref_store_is_changed_by_no_look_up(tmp_path: Path) -> None:
    """And long pages are not read by one; a key is."""
    kv = SqliteKeyValueStore(tmp_path / "refs.db")
    kv.set("p", b"k", b"1")
    assert try_at_once(lambda: kv.get("p", b"k")) == b"1"
    for work in (lambda: kv.set("p", b"k", b"2"), lambda: kv.page("p")):
        with pytest.raises(WouldWait):
            try_at_once(work)
    assert kv.get("p", b"k") == b"1"
    kv.close()


def test_walk_over_commits_is_no_work_for_the_event_loop() -> None:
    """Ten thousand commits may be asked for; a branch is found at once."""
    repo = LakeRepo().create()
    repo.put("a")
    repo.commit()
    assert try_at_once(lambda: repo.lake.refs.resolve(repo.record, "main")).branch is not None
    with pytest.raises(WouldWait):
        try_at_once(lambda: repo.lake.refs.resolve(repo.record, "main~1"))


def test_committed_object_is_found_at_once_when_its_range_was_read() -> None:
    """The first look reads the range from the store, and so waits."""
    repo = LakeRepo().create()
    repo.put("a", b"12")
    repo.commit()
    with pytest.raises(WouldWait):
        try_at_once(lambda: repo.lake.objects.stat(repo.record, "main", "a"))
    assert repo.lake.objects.stat(repo.record, "main", "a").size_bytes == 2
    assert try_at_once(lambda: repo.lake.objects.stat(repo.record, "main", "a")).size_bytes == 2
