"""Many live files are read one after another where that is quick, and many at once where it is not."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from lakesweep.collector.nessie import places
from lakesweep.collector.nessie.places import TableStores, Unreadable
from lakesweep.storage import StorageOptions

LAKE = TableStores(StorageOptions())


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread of each read."""
    seen: list[threading.Thread] = []
    read = TableStores.read

    def watched(lake: TableStores, uri: str) -> bytes | Unreadable:
        seen.append(threading.current_thread())
        return read(lake, uri)

    monkeypatch.setattr(TableStores, "read", watched)
    return seen


def make_files(folder: Path) -> dict[str, bytes]:
    """Forty files, whose names are no order."""
    files = {f"file://{folder}/{n * 7 % 40}": str(n).encode() for n in range(40)}
    for uri, data in files.items():
        Path(uri.removeprefix("file://")).write_bytes(data)
    return files


def test_local_files_are_read_by_the_caller_itself(
    tmp_path: Path, readers: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing one among them is told of like everywhere."""
    monkeypatch.setattr(places.time, "monotonic", lambda: 0.0)
    files = make_files(tmp_path)
    missing = f"file://{tmp_path}/missing"
    (*read, (uri, data)) = LAKE.read_many([*files, missing])
    assert read == list(files.items())
    assert uri == missing
    assert isinstance(data, Unreadable)
    assert data.is_missing
    assert set(readers) == {threading.current_thread()}


def test_local_files_that_come_slowly_are_read_many_at_once(
    tmp_path: Path, readers: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their disk is far away. All of them come, in their order."""
    monkeypatch.setattr(places.time, "monotonic", itertools.count().__next__)
    files = make_files(tmp_path)
    assert list(LAKE.read_many(files)) == list(files.items())
    own = readers.count(threading.current_thread())
    assert 0 < own < len(files) / 2
    assert len(readers) == len(files)


def test_objects_of_a_store_are_read_many_at_once(readers: list[threading.Thread]) -> None:
    """From the first one on."""
    uris = [f"mem://away/{n}" for n in range(10)]
    assert [uri for uri, _ in LAKE.read_many(uris)] == uris
    assert threading.current_thread() not in readers
