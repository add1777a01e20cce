"""The SQLite ref store commits the writes that wait for it together, and answers each for itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore


@pytest.fixture
def kv(tmp_path: Path) -> Iterator[SqliteKeyValueStore]:
    store = SqliteKeyValueStore(tmp_path / "refs.db")
    yield store
    store.close()


class _Busy:
    """Holds the store's turn, as a commit under way does, until a number of writes wait behind it."""

    def __init__(self, kv: SqliteKeyValueStore) -> None:
        self._kv = kv

    def together(self, *writes: Callable[[], object]) -> list[object]:
        with ThreadPoolExecutor(len(writes)) as pool:
            with self._kv._turn:
                futures = []
                for number, write in enumerate(writes, 1):
                    futures.append(pool.submit(write))
                    while len(self._kv._waiting) < number:
                        threading.Event().wait(0.001)
            return [future.exception() or future.result() for future in futures]


def _commits(kv: SqliteKeyValueStore) -> list[str]:
    statements: list[str] = []
    kv._writer.set_trace_callback(statements.append)
    return statements


def test_waiting_writes_share_one_commit(kv: SqliteKeyValueStore) -> None:
    """Twenty writes that queue up behind another cost one wait for the disk."""
    statements = _commits(kv)
    writes = [lambda n=n: kv.set("p", b"%d" % n, b"v") for n in range(20)]
    assert _Busy(kv).together(*writes) == [None] * 20
    assert statements.count("COMMIT") == 1
    assert len(kv.page("p")) == 20


def test_a_group_waits_for_the_disk_if_one_of_it_does(kv: SqliteKeyValueStore) -> None:
    """Alone, a change that need not be durable waits for nothing; the next one that must be does so again."""
    full = kv._full_level = 2
    levels: list[int] = []

    def note(_key: bytes, _value: bytes) -> None:
        levels.append(kv._writer.execute("PRAGMA synchronous").fetchone()[0])

    def lightly() -> object:
        return kv.change_all([Change("p", b"light", b"x")], is_durable=False)

    lightly()
    assert kv._writer.execute("PRAGMA synchronous").fetchone() == (1,)
    kv.set("p", b"a", b"old")
    assert kv._writer.execute("PRAGMA synchronous").fetchone() == (full,)
    lightly()
    _Busy(kv).together(lightly, lambda: kv.write_over("p", [(b"a", b"new")], note), lightly)
    assert levels == [full]


def test_a_note_that_fails_takes_no_neighbour_with_it(kv: SqliteKeyValueStore) -> None:
    """Its own row is not written, and its writer is told; the others of the group are written."""
    kv.set("p", b"a", b"old")

    def fail(_key: bytes, _value: bytes) -> None:
        raise ValueError("what is there can't be read")

    failed, *rest = _Busy(kv).together(
        lambda: kv.write_over("p", [(b"new", b"x"), (b"a", b"new")], fail),
        lambda: kv.set("p", b"b", b"v"),
        lambda: kv.write_over("p", [(b"c", b"v")], fail),
    )
    assert isinstance(failed, RefStoreError)
    assert rest == [None, True]
    assert kv.page("p") == [(b"a", b"old"), (b"b", b"v"), (b"c", b"v")]


def test_of_rivals_in_one_group_one_wins(kv: SqliteKeyValueStore) -> None:
    """Compare-and-set sees what stands before it in its own group."""
    writes = [lambda n=n: kv.set_if("p", b"k", b"%d" % n, None) for n in range(5)]
    assert sorted(map(bool, _Busy(kv).together(*writes))) == [False] * 4 + [True]


def test_bad_write_leaves_its_neighbours_alone(kv: SqliteKeyValueStore) -> None:
    """A write that can't be made fails alone; those it was grouped with are made."""
    kv._writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2000)
    good, bad, also_good = _Busy(kv).together(
        lambda: kv.set("p", b"a", b"1"),
        lambda: kv.set("p", b"b", bytes(5000)),
        lambda: kv.set("p", b"c", b"3"),
    )
    assert (good, also_good) == (None, None)
    assert isinstance(bad, RefStoreError)
    assert kv.page("p") == [(b"a", b"1"), (b"c", b"3")]


def test_failed_commit_acknowledges_nobody(kv: SqliteKeyValueStore, tmp_path: Path) -> None:
    """When the file can't be written, every write of the group says that it may not have been made."""
    kv.set("p", b"a", b"1")
    kv._writer.execute("PRAGMA query_only=1")
    failed = _Busy(kv).together(
        lambda: kv.set("p", b"a", b"2"), lambda: kv.set_if("p", b"b", b"2", None)
    )
    assert all(isinstance(error, RefStoreError) for error in failed)
    kv._writer.execute("PRAGMA query_only=0")
    assert kv.page("p") == [(b"a", b"1")]


def test_interrupted_leader_lets_no_follower_believe_it_was_written(
    kv: SqliteKeyValueStore,
) -> None:
    """Whoever makes the group's transaction may be interrupted; the others are told."""

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    outcomes = _Busy(kv).together(
        lambda: kv.set("p", b"a", b"1"),
        lambda: kv._write(interrupted),
        lambda: kv.set("p", b"b", b"1"),
    )
    assert all(isinstance(outcome, RefStoreError | KeyboardInterrupt) for outcome in outcomes)
    assert kv.page("p") == []
    kv.set("p", b"c", b"1")
    assert kv.page("p") == [(b"c", b"1")]
