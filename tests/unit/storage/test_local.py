"""Local files: exact names, no link followed, nothing half-written seen."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import (
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    UnsupportedStoreError,
)
from lakesweep.storage import DeleteStatus, ObjectStore, StorageOptions, open_store
from lakesweep.storage.local_walk import walk_files


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(Location.parse(f"file://{tmp_path}/root"), StorageOptions())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def rows(store: ObjectStore) -> dict[str, bool]:
    return {row["key"]: row["is_odd"] for batch in store.list() for row in batch.to_pylist()}


def test_temporary_files_are_no_objects(store: ObjectStore, root: Path) -> None:
    """A write under way, or one that died, is never listed, read or deleted."""
    (root / "data").mkdir()
    (root / "data" / ".lakesweep-tmp-1234").write_bytes(b"half")
    store.write("data/o", b"x")
    assert rows(store) == {"data/o": False}
    with pytest.raises(UnsupportedStoreError):
        store.read("data/.lakesweep-tmp-1234")
    (outcome,) = store.delete_many(["data/.lakesweep-tmp-1234"])
    assert outcome.status is DeleteStatus.FAILED
    assert (root / "data" / ".lakesweep-tmp-1234").exists()


def test_no_write_leaves_a_temporary_file(store: ObjectStore, root: Path) -> None:
    """Finished or refused, nothing stays beside the object."""
    info = store.write("a/o", b"1", create=True)
    store.write("a/o", b"2", if_match=info.etag)
    for condition in ({"create": True}, {"if_match": info.etag}):
        with pytest.raises(StorageError):
            store.write("a/o", b"3", **condition)  # type: ignore[arg-type]
    assert os.listdir(root / "a") == ["o"]


def test_links_are_no_objects_and_lead_nowhere(
    store: ObjectStore, root: Path, tmp_path: Path
) -> None:
    """Neither a linked file nor a linked folder is listed, read, written through or deleted."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "precious")
    assert rows(store) == {}
    assert store.list_folder().folders == ()
    assert list(store.list("folder/")) == []
    for key in ("file", "folder/precious"):
        with pytest.raises(StorageError):
            store.read(key)
        assert store.delete_many([key])[0].status is DeleteStatus.FAILED
    with pytest.raises(UnsupportedStoreError):
        store.write("folder/new", b"x")
    assert os.listdir(outside) == ["precious"]


def test_a_root_behind_a_link_works(tmp_path: Path) -> None:
    """The root itself may be reached over a link: what lies in it is inside."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = open_store(Location.parse(f"file://{tmp_path}/link"), StorageOptions())
    store.write("a/b", b"x")
    assert rows(store) == {"a/b": False}
    assert store.delete_many(["a/b"])[0].status is DeleteStatus.GONE


def test_strange_file_names_are_listed_and_odd(store: ObjectStore, root: Path) -> None:
    """Control characters and bytes that are not text stop nothing and can't be deleted."""
    for name in (b"new\nline", b"bad\xff", b"plain"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(b"x")
    folder = os.fsdecode(os.fsencode(root) + b"/dir\xfe")
    os.mkdir(folder)
    Path(folder, "inside").write_bytes(b"x")
    found = rows(store)
    assert found == {"new\nline": True, "bad\ufffd": True, "plain": False, "dir\ufffd/inside": True}
    outcomes = store.delete_many(list(found))
    assert [o.key for o in outcomes if o.status is DeleteStatus.GONE] == ["plain"]


def test_a_listing_goes_on_in_the_middle_of_a_folder(store: ObjectStore, root: Path) -> None:
    """A folder sorts before the key after which it goes on, and holds others that come behind."""
    keys = ["a/1", "a/b/1", "a/b/2", "a/c", "b"]
    for key in keys:
        store.write(key, b"x")
    for number, last in enumerate(keys):
        behind = [key for key, _ in walk_files(str(root), "", last)]
        assert behind == keys[number + 1 :]


def test_folders_are_no_objects(store: ObjectStore, root: Path) -> None:
    """An empty folder is nothing; deleting a folder's name deletes nothing."""
    (root / "empty" / "deep").mkdir(parents=True)
    store.write("full/o", b"x")
    assert store.list_folder().folders == ("full/",)
    assert store.delete_many(["full", "empty"])[0].status is DeleteStatus.ALREADY_ABSENT
    assert (root / "empty").exists()
    with pytest.raises(ObjectNotFoundError):
        store.read("full")
    with pytest.raises(ObjectNotFoundError):
        store.stat("full/o/below")
    with pytest.raises(StorageError):
        store.write("full", b"x")


def test_a_folder_that_can_not_be_read_is_an_error(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that skips what it may not see would be cut short."""
    store.write("closed/o", b"x")
    scandir = os.scandir

    def denied(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(StorageDeniedError):
        rows(store)


def test_one_of_many_creators_wins(tmp_path: Path) -> None:
    """Create-if-absent holds between processes."""
    program = (
        "import sys\n"
        "from lakesweep.domain.location import Location\n"
        "from lakesweep.errors import ObjectExistsError\n"
        "from lakesweep.storage import StorageOptions, open_store\n"
        "store = open_store(Location.parse(sys.argv[1]), StorageOptions())\n"
        "won = 0\n"
        "for number in range(100):\n"
        "    try:\n"
        "        store.write(f'lease/{number}', sys.argv[2].encode(), create=True)\n"
        "        won += 1\n"
        "    except ObjectExistsError:\n"
        "        pass\n"
        "print(won)\n"
    )
    command = [sys.executable, "-c", program, f"file://{tmp_path}/root"]
    processes = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(2)
    ]
    won = [int(process.communicate()[0]) for process in processes]
    assert sum(won) == 100


def test_new_files_are_on_the_disk_with_their_folders(
    store: ObjectStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file, whole, then the folder that names them, and the folders that were made on the way."""
    synced: list[tuple[str, int]] = []
    really_sync = os.fsync

    def sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        size = path.stat().st_size if path.is_file() else -1
        synced.append((str(path.relative_to(root.parent)), size))
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    store.write_new([("data/s/a", b"12"), ("data/s/b", b"345")])
    assert synced == [
        ("root/data/s/a", 2),
        ("root/data/s/b", 3),
        ("root/data/s", -1),
        ("root/data", -1),
        ("root", -1),
    ]
    assert dict(store.read_many(["data/s/a", "data/s/b"])) == {
        "data/s/a": b"12",
        "data/s/b": b"345",
    }


def test_new_files_take_no_ones_place(store: ObjectStore, root: Path) -> None:
    """A name that is taken after all, a name of half-written files, a way out over a link: nothing is written over."""
    store.write("data/a", b"old")
    for key in ("data/a", "data/.lakesweep-tmp-1", "data/../../a"):
        with pytest.raises((StorageError, UnsupportedStoreError)):
            store.write_new([(key, b"new")])
    (root / "link").symlink_to(root.parent)
    with pytest.raises(UnsupportedStoreError):
        store.write_new([("link/a", b"new")])
    assert store.read("data/a") == b"old"
    assert not (root.parent / "a").exists()


def test_new_files_of_a_write_that_failed_are_gone(
    store: ObjectStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk they would take the room that a delete's record needs, and nobody would ever name them."""
    really_write = os.write

    def write(descriptor: int, data: bytes) -> int:
        if bytes(data) == b"345":
            really_write(descriptor, b"3")
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_write(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageError, match="No space left"):
        store.write_new([("data/s/a", b"12"), ("data/s/b", b"345")])
    assert [path for path in root.rglob("*") if path.is_file()] == []
