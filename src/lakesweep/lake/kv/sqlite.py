"""The ref store in a SQLite file: readers beside each other, and one writer that commits in groups.

A commit waits for the disk. While one is under way, the writes that arrive queue up, and whoever gets the next turn makes
one transaction of them all: many requests share one wait, and each is answered only when its own change is on the disk.

Long values lie in a table of their own. SQLite reads a whole row to compare it with a key that it looks for, and a row that
does not fit its page from many pages: a record of a hundred kilobytes made every look-up that passed by it ten times as long.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.folders import making_a_file
from lakesweep.lake.kv.interface import PAGE_ROWS, Change, Held, Note, Row, end_of_prefix
from lakesweep.storage.waiting import about_to_wait

# Parts and keys are bytes, which SQLite orders bytewise. Rows live in the primary key's own tree, so that a scan of a
# partition reads the file front to back. A value is bytes, or the number of a long one.
_CREATE_TABLES = (
    "CREATE TABLE IF NOT EXISTS lake_kv (part BLOB NOT NULL, k BLOB NOT NULL, v BLOB NOT NULL,"
    " PRIMARY KEY (part, k)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS lake_kv_long (id INTEGER PRIMARY KEY, v BLOB NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS lake_kv_long_replaced AFTER UPDATE OF v ON lake_kv"
    " WHEN typeof(OLD.v) = 'integer' BEGIN DELETE FROM lake_kv_long WHERE id = OLD.v; END",
    "CREATE TRIGGER IF NOT EXISTS lake_kv_long_deleted AFTER DELETE ON lake_kv"
    " WHEN typeof(OLD.v) = 'integer' BEGIN DELETE FROM lake_kv_long WHERE id = OLD.v; END",
)
_MOST_BYTES_IN_ROW = 700  # with its keys a row of that stays within a quarter of a page
_KEEP_LONG = "INSERT INTO lake_kv_long (v) VALUES (?)"
_DROP_LONG = "DELETE FROM lake_kv_long WHERE id = ?"
_VALUE = (
    "CASE typeof(v) WHEN 'integer' THEN (SELECT long.v FROM lake_kv_long AS long"
    " WHERE long.id = lake_kv.v) ELSE v END"
)
_GET = f"SELECT {_VALUE} FROM lake_kv WHERE part = ? AND k = ?"
_SET = (
    "INSERT INTO lake_kv (part, k, v) VALUES (?, ?, ?)"
    " ON CONFLICT (part, k) DO UPDATE SET v = excluded.v"
)
_CREATE = "INSERT INTO lake_kv (part, k, v) VALUES (?, ?, ?) ON CONFLICT (part, k) DO NOTHING"
_REPLACE = f"UPDATE lake_kv SET v = ?3 WHERE part = ?1 AND k = ?2 AND {_VALUE} = ?4"
_CREATE_HELD = (
    "INSERT INTO lake_kv (part, k, v) SELECT ?1, ?2, ?3 WHERE EXISTS"
    f" (SELECT 1 FROM lake_kv WHERE part = ?4 AND k = ?5 AND {_VALUE} = ?6)"
    " ON CONFLICT (part, k) DO NOTHING"
)
_REPLACE_HELD = (
    f"{_REPLACE} AND EXISTS (SELECT 1 FROM lake_kv WHERE part = ?5 AND k = ?6 AND {_VALUE} = ?7)"
)
_DELETE = "DELETE FROM lake_kv WHERE part = ? AND k = ?"
_DELETE_IF = f"DELETE FROM lake_kv WHERE part = ? AND k = ? AND {_VALUE} = ?"
# In steps, so that other writers get their turn while a large staging token goes.
_DELETE_SOME = (
    "DELETE FROM lake_kv WHERE part = ?1 AND k IN"
    " (SELECT k FROM lake_kv WHERE part = ?1 ORDER BY k LIMIT ?2)"
)
_PAGE = f"SELECT k, {_VALUE} FROM lake_kv WHERE part = ? AND k >= ? ORDER BY k LIMIT ?"
_PAGE_TO = f"SELECT k, {_VALUE} FROM lake_kv WHERE part = ? AND k >= ? AND k < ? ORDER BY k LIMIT ?"
_DELETE_STEP = 20_000
_AT_ONCE_ROWS = 10
_WAIT_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.0002, 0.001
_MOST_IDLE_READERS = 32
_PRAGMAS = (
    "journal_mode=WAL",  # readers and the writer do not wait for each other
    "synchronous=FULL",  # what was acknowledged survives a power cut, too
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)
_NORMAL_LEVEL = (
    1  # SQLite's number: the log is waited for only when its content goes into the database
)
_WRITER_CACHE_KIB, _READER_CACHE_KIB = 16_384, 2_048


class SqliteKeyValueStore:
    """One table of (partition, key, value). Compare-and-set is one conditional statement."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        """Open the file, which a new store makes readable by its owner alone: secrets lie in it."""
        self._path = path
        # SQLite gives its -wal and -shm files the mode of the database file.
        with making_a_file(path, "The lake was not opened"):
            with suppress(FileExistsError):
                # A file that is there is not opened. To close it would drop all locks that this process has on it, and
                # the next process that closes it would take the log away under us.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            path.chmod(0o600)
        self._idle_readers: deque[sqlite3.Connection] = deque()
        self._waiting: deque[_Write] = deque()
        self._turn = threading.Lock()
        try:
            self._writer = self._connect(_WRITER_CACHE_KIB)
            self._writer.execute("PRAGMA busy_timeout=0")  # it waits in `_begin`
            (self._full_level,) = self._writer.execute("PRAGMA synchronous").fetchone()
            self._level: int = self._full_level
            with self._transaction():
                for statement in _CREATE_TABLES:
                    self._writer.execute(statement)
        except _StatementError as failed:
            raise self._failed(failed.error) from None
        except sqlite3.Error as failed:
            raise self._failed(failed) from None

    def get(self, partition: str, key: bytes) -> bytes | None:
        rows = self._read(_GET, (partition.encode(), key))
        return rows[0][0] if rows else None

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        part = partition.encode()
        self._write(lambda connection: _put(connection, part, key, value))

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        part = partition.encode()
        guard = () if held is None else (held[0].encode(), *held[1:])
        if expected is None:
            statement = _CREATE if held is None else _CREATE_HELD
        else:
            statement = _REPLACE if held is None else _REPLACE_HELD
            guard = (expected, *guard)

        def run(connection: sqlite3.Connection) -> int:
            placed = _placed(connection, value)
            rows = connection.execute(statement, (part, key, placed, *guard)).rowcount
            if not rows and isinstance(placed, int):
                connection.execute(_DROP_LONG, (placed,))
            return rows

        return self._write(run) == 1

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        part = partition.encode()
        complete = list(rows)

        def run(connection: sqlite3.Connection) -> int:
            placed = [(part, key, _placed(connection, value)) for key, value in complete]
            return connection.executemany(_SET, placed).rowcount

        if complete:
            self._write(run)

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        def run(connection: sqlite3.Connection) -> int:
            # Nothing comes between: this connection has the only transaction that writes.
            if not _are_held(connection, held):
                return 0
            for change in changes:
                part, expected = change.partition.encode(), change.expected
                if expected is not ... and _value_at(connection, part, change.key) != expected:
                    return 0
            keys = [(change.partition.encode(), change.key) for change in changes]
            gone = [key for key, change in zip(keys, changes, strict=True) if change.value is None]
            connection.executemany(_DELETE, gone)
            for (part, key), change in zip(keys, changes, strict=True):
                if change.value is not None:
                    _put(connection, part, key, change.value)
            return 1

        return self._write(run, is_durable=is_durable) == 1

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        part = partition.encode()

        def run(connection: sqlite3.Connection) -> int:
            if not _are_held(connection, held):
                return 0
            for key, value in rows:
                present = _value_at(connection, part, key)
                if value == present:
                    continue
                noted = None if present is None else note(key, present)
                if noted is not None:
                    _make(connection, noted)
                _put(connection, part, key, value)
            return 1

        return self._write(run) == 1

    def delete(self, partition: str, key: bytes) -> None:
        self._write_one(_DELETE, (partition.encode(), key))

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        return self._write_one(_DELETE_IF, (partition.encode(), key, expected)) == 1

    def delete_partition(self, partition: str) -> None:
        step = (partition.encode(), _DELETE_STEP)
        while self._write_one(_DELETE_SOME, step) == _DELETE_STEP:
            pass

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        if limit > _AT_ONCE_ROWS:
            about_to_wait()
        # The least key above `after` is `after` with a zero byte behind it.
        low = prefix if after is None else max(prefix, after + b"\x00")
        part = partition.encode()
        high = end_of_prefix(prefix)
        if high is None:
            return self._read(_PAGE, (part, low, limit))
        return self._read(_PAGE_TO, (part, low, high, limit))

    def close(self) -> None:
        with self._turn:
            while self._idle_readers:
                self._idle_readers.pop().close()
            self._writer.close()

    def _write_one(self, statement: str, parameters: tuple[object, ...]) -> int:
        return self._write(lambda connection: connection.execute(statement, parameters).rowcount)

    def _write(self, run: Callable[[sqlite3.Connection], int], *, is_durable: bool = True) -> int:
        """Make a change together with those that wait beside it; the rows it touched, once they are durable."""
        about_to_wait()
        write = _Write(run, is_durable)
        self._waiting.append(write)
        with self._turn:
            if not write.is_done:
                group = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._commit_group(group)
        if write.error is not None:
            raise self._failed(write.error)
        return write.rows

    def _commit_group(self, group: list[_Write]) -> None:
        try:
            with self._transaction(is_durable=any(write.is_durable for write in group)):
                for write in group:
                    write.rows = write.run(self._writer)
        except _StatementError as failed:
            # Nothing of the group was kept. One bad write must not take its neighbours with it: each goes alone.
            if len(group) == 1:
                group[0].error = failed.error
            else:
                for write in group:
                    self._commit_group([write])
        except BaseException as failed:
            for write in group:
                write.error = failed
            if not isinstance(failed, sqlite3.Error):
                raise
        finally:
            for write in group:
                write.is_done = True

    @contextmanager
    def _transaction(self, *, is_durable: bool = True) -> Iterator[None]:
        self._set_waiting(is_durable=is_durable)
        self._begin()
        try:
            yield
        except BaseException as failed:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if isinstance(failed, Exception):
                raise _StatementError(failed) from failed
            raise
        try:
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _set_waiting(self, *, is_durable: bool) -> None:
        """Whether the next commit waits for the disk. The log keeps their order: one that waits does so for all before it."""
        level = self._full_level if is_durable else min(self._full_level, _NORMAL_LEVEL)
        if level != self._level:
            self._writer.execute(f"PRAGMA synchronous={level}")
            self._level = level

    def _begin(self) -> None:
        """Begin to write, once no other process does; SQLite's own waiting sleeps for many times as long as they write."""
        give_up_at = time.monotonic() + _WAIT_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as failed:
                is_busy = failed.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > give_up_at:
                    raise
            else:
                return
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)

    def _read(self, statement: str, parameters: tuple[object, ...]) -> list[Any]:
        """All rows of one statement, on a connection that nobody else uses meanwhile."""
        try:
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = self._connect(_READER_CACHE_KIB)
            try:
                rows = connection.execute(statement, parameters).fetchall()
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as failed:
            raise self._failed(failed) from None
        if len(self._idle_readers) < _MOST_IDLE_READERS:
            self._idle_readers.append(connection)
        else:
            connection.close()
        return rows

    def _connect(self, cache_kib: int) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        for pragma in (*_PRAGMAS, f"cache_size=-{cache_kib}"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _failed(self, cause: BaseException) -> RefStoreError:
        return RefStoreError(
            f"the ref store {self._path.name} did not answer as it should: {type(cause).__name__}: {cause};"
            " whether the last change was made is not known, look before repeating it"
        )


def _placed(connection: sqlite3.Connection, value: bytes) -> bytes | int:
    """What stands in the row of a value: a long one is kept elsewhere, under a number."""
    if len(value) <= _MOST_BYTES_IN_ROW:
        return value
    return int(connection.execute(_KEEP_LONG, (value,)).lastrowid or 0)


def _put(connection: sqlite3.Connection, part: bytes, key: bytes, value: bytes | None) -> int:
    if value is None:
        return connection.execute(_DELETE, (part, key)).rowcount
    return connection.execute(_SET, (part, key, _placed(connection, value))).rowcount


def _make(connection: sqlite3.Connection, change: Change) -> None:
    _put(connection, change.partition.encode(), change.key, change.value)


def _are_held(connection: sqlite3.Connection, held: Sequence[Held]) -> bool:
    return all(_value_at(connection, part.encode(), key) == value for part, key, value in held)


def _value_at(connection: sqlite3.Connection, part: bytes, key: bytes) -> bytes | None:
    row = connection.execute(_GET, (part, key)).fetchone()
    return None if row is None else row[0]


class _Write:
    """A change that waits for its turn, and what became of it."""

    __slots__ = ("error", "is_done", "is_durable", "rows", "run")

    def __init__(self, run: Callable[[sqlite3.Connection], int], is_durable: bool) -> None:
        self.run = run
        self.is_durable = is_durable
        self.rows = 0
        self.error: BaseException | None = None
        self.is_done = False


class _StatementError(Exception):
    """A statement, or what was to be noted, failed before its transaction was to be committed: nothing of it was kept."""

    def __init__(self, error: Exception) -> None:
        self.error = error
