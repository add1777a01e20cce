"""Other processes use the SQLite file: who wants to write waits for them, and none takes what was written away."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.kv import sqlite
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore


@contextmanager
def _written_to_by_another(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(
        sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_write_waits_for_another_process(tmp_path: Path) -> None:
    """It is made when the other is done, and is not lost."""
    path = tmp_path / "refs.db"
    with closing(SqliteKeyValueStore(path)) as kv, _written_to_by_another(path) as other:
        writer = threading.Thread(target=kv.set, args=("p", b"k", b"v"))
        writer.start()
        writer.join(0.05)
        assert writer.is_alive()
        assert kv.get("p", b"k") is None
        other.execute("COMMIT")
        writer.join()
        assert kv.get("p", b"k") == b"v"


def test_who_waits_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the ref store, and a later write is made."""
    monkeypatch.setattr(sqlite, "_WAIT_SECONDS", 0.05)
    path = tmp_path / "refs.db"
    with closing(SqliteKeyValueStore(path)) as kv:
        with (
            _written_to_by_another(path),
            pytest.raises(RefStoreError, match=r"refs\.db.*locked"),
        ):
            kv.set("p", b"k", b"v")
        kv.set("p", b"k", b"later")
        assert kv.get("p", b"k") == b"later"


_OPENS_AND_CLOSES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM lake_kv").fetchone()
connection.close()
"""


def test_opening_a_file_again_gives_up_no_lock_on_it(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops all locks that a process has on it, and another process takes its log away."""
    path = tmp_path / "refs.db"
    with closing(SqliteKeyValueStore(path)) as first, closing(SqliteKeyValueStore(path)):
        first.set("p", b"before", b"v")
        subprocess.run([sys.executable, "-c", _OPENS_AND_CLOSES, str(path)], check=True)
        first.set("p", b"after", b"v")
        assert first.get("p", b"after") == b"v"
    with closing(SqliteKeyValueStore(path)) as later:
        assert [key for key, _ in later.page("p")] == [b"after", b"before"]
