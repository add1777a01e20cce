"""Files of several local folders are deleted at the same time, each folder's one after another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.ledger import deleting
from lakesweep.collector.ledger.deadline import Deadline, this_moment
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.storage import DeleteOutcome, DeleteStatus, StorageOptions
from lakesweep.storage.local import LocalBackend
from lakesweep.storage.values import NO_TERMS, DeleteTerms


def delete(folder: str, rows: pa.Table) -> list[str]:
    """The outcome of each file."""
    options = StorageOptions()
    work = Target(Location.parse("mem://work"), options)
    protection = FolderIndex.of([(folder, "")], elsewhere="outside")
    deletion = FileDeletion(TableStores(options), protection, work)
    now = datetime.now(UTC)
    deadline = Deadline(now + timedelta(hours=1), now, this_moment())
    return [outcome for outcome, _ in deletion._outcomes(rows, deadline)]


@pytest.fixture
def meeting_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every delete of files waits for one in another folder."""
    both = threading.Barrier(2, timeout=60)
    plain: Callable[..., list[DeleteOutcome]] = LocalBackend.delete

    def meet(
        backend: LocalBackend, keys: Sequence[str], terms: DeleteTerms = NO_TERMS
    ) -> list[DeleteOutcome]:
        if not keys[0].startswith("."):  # checksums
            both.wait()
        return plain(backend, keys, terms)

    monkeypatch.setattr(LocalBackend, "delete", meet)


@pytest.mark.usefixtures("meeting_deletes")
def test_no_folder_waits_for_another_and_each_file_gets_its_own_outcome(tmp_path: Path) -> None:
    """One that was written anew since stays, whatever happens in the other folder."""
    rows: list[dict[str, object]] = []
    for path in [tmp_path / folder / name for name in ("x", "y") for folder in ("a", "b")]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"garbage")
        os.utime(path, (10, 10))
        then = datetime.fromtimestamp(10, UTC)
        rows.append({"uri": f"file://{path}", "size_bytes": 7, "last_modified": then})
    rows[3]["size_bytes"] = 1  # planned when it was another
    outcomes = delete(f"file://{tmp_path}", pa.Table.from_pylist(rows, schema=FILE_SCHEMA))
    assert outcomes == [*[deleting.DELETED] * 3, deleting.CHANGED]
    assert [path.name for path in tmp_path.rglob("?") if path.is_file()] == ["y"]
    assert (tmp_path / "b" / "y").exists()


def test_azures_names_may_hold_what_ends_the_path_of_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A listing names a blob by its address, and its name goes on behind `?` and `#`."""
    asked: list[tuple[str, str]] = []

    class Container:
        def __init__(self, folder: Location) -> None:
            self.name = folder.container

        def delete_many(self, keys: Sequence[str], **how: Any) -> list[DeleteOutcome]:
            asked.extend((self.name, key) for key in keys)
            return [DeleteOutcome(key, DeleteStatus.GONE) for key in keys]

    monkeypatch.setattr(TableStores, "open_for_deletes", lambda stores, folder: Container(folder))
    table = Location.parse("abfss://lake@account.dfs.core.windows.net/a#b").uri
    rows = [{"uri": f"{table}/{name}"} for name in ("x?y.parquet", "x#y.parquet")]
    outcomes = delete(table, pa.Table.from_pylist(rows, schema=FILE_SCHEMA))
    assert outcomes == [deleting.DELETED] * 2
    assert asked == [("lake", "a#b/x?y.parquet"), ("lake", "a#b/x#y.parquet")]
