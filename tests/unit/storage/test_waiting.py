"""Work that an event loop does itself waits for nothing and changes nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import ObjectNotFoundError, UnsupportedStoreError
from lakesweep.storage import ObjectStore, open_store
from lakesweep.storage.waiting import WouldWait, may_wait, try_at_once


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    store = open_store(Location.parse(f"file://{tmp_path}/root"), StorageOptions(local_fsync=False))
    store.write("data/a", b"0123456789")
    return store


def test_bytes_in_memory_are_read_at_once(store: ObjectStore) -> None:
    """All of them, a range, and none past the end."""
    assert try_at_once(lambda: store.read_range("data/a", 0, 100)) == b"0123456789"
    assert try_at_once(lambda: store.read_range("data/a", 3, 4)) == b"3456"
    assert try_at_once(lambda: store.read_range("data/a", 10, 5)) == b""
    with pytest.raises(ObjectNotFoundError):
        try_at_once(lambda: store.read_range("data/none", 0, 1))


@pytest.mark.parametrize("known", [errno.EAGAIN, errno.EOPNOTSUPP, 4])
def test_bytes_on_the_disk_are_not_waited_for(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """Whether the system has none of them in memory, can't say, or has the first four only."""

    def preadv(descriptor: int, buffers: list[bytearray], at: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if known == 4:
            return 4
        raise OSError(known, "not now")

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(WouldWait):
        try_at_once(lambda: store.read_range("data/a", 0, 10))
    assert store.read_range("data/a", 0, 10) == b"0123456789"


def test_a_pipe_is_not_waited_for(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is at its other end; it is no object."""
    os.mkfifo(tmp_path / "root/data/pipe")
    is_asked: list[bool] = []
    really_open = os.open

    def open_quickly(path: str, flags: int) -> int:
        is_asked.append(bool(flags & os.O_NONBLOCK))
        return really_open(path, flags | os.O_NONBLOCK)

    monkeypatch.setattr(os, "open", open_quickly)
    with pytest.raises(ObjectNotFoundError):
        try_at_once(lambda: store.read_range("data/pipe", 0, 10))
    assert is_asked == [True]


def test_time_of_reading_is_not_noted(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be written to the disk. Who may not read so, since the file is another's, is asked to wait."""
    path = tmp_path / "root/data/a"
    os.utime(path, (1, 2))
    try_at_once(lambda: store.read_range("data/a", 0, 10))
    assert path.stat().st_atime == 1

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WouldWait):
        try_at_once(lambda: store.read_range("data/a", 0, 10))


def test_nothing_is_written_or_asked_of_a_store_at_once(store: ObjectStore) -> None:
    """A write that would have to be waited for is not begun, and the thread may wait again afterwards."""
    for work in (
        lambda: store.write("data/b", b"1"),
        lambda: store.write_stream("data/b", [b"1"]),
        lambda: store.stat("data/a"),
        lambda: store.read("data/a"),
    ):
        with pytest.raises(WouldWait):
            try_at_once(work)
    assert may_wait()
    assert store.find("data/b") is None
    other = open_store(Location.parse("mem://waiting"))
    other.write("a", b"1")
    with pytest.raises(WouldWait):
        try_at_once(lambda: other.read_range("a", 0, 1))


def test_a_folder_that_becomes_a_link_is_not_followed(store: ObjectStore, tmp_path: Path) -> None:
    """What was found of a folder before does not count."""
    assert store.read("data/a") == b"0123456789"
    (tmp_path / "root/data").rename(tmp_path / "elsewhere")
    (tmp_path / "root/data").symlink_to(tmp_path / "elsewhere")
    for read in (store.read, lambda key: try_at_once(lambda: store.read_range(key, 0, 1))):
        with pytest.raises(UnsupportedStoreError):
            read("data/a")


def test_a_root_that_becomes_another_folder_is_found_anew(tmp_path: Path) -> None:
    """Where it is a link that is turned, and where it is moved away and another put in its place."""
    for name in ("one", "two"):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data/a").write_text(name)
    (tmp_path / "root").symlink_to(tmp_path / "one")
    store = open_store(Location.parse(f"file://{tmp_path}/root"))
    assert store.read("data/a") == b"one"
    (tmp_path / "root").unlink()
    (tmp_path / "root").symlink_to(tmp_path / "two")
    assert store.read("data/a") == b"two"
    (tmp_path / "two").rename(tmp_path / "three")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert store.read("data/a") == b"one"
