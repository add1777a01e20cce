"""The ref store on SQLite (one machine) or PostgreSQL (several server processes)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from lakesweep.errors import ConfigError
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.kv.interface import PAGE_ROWS, Row, end_of_prefix

# All columns are bytes: both databases order those bytewise, whatever collation the server was set up with.
_METADATA = MetaData()
_TABLE = Table(
    "lake_kv",
    _METADATA,
    Column("part", LargeBinary, primary_key=True),
    Column("k", LargeBinary, primary_key=True),
    Column("v", LargeBinary, nullable=False),
    # Rows live in the primary key's own tree, so that a scan of a partition reads the file front to back.
    sqlite_with_rowid=False,
)

_GET = text("SELECT v FROM lake_kv WHERE part = :part AND k = :k")
_SET = text(
    "INSERT INTO lake_kv (part, k, v) VALUES (:part, :k, :v)"
    " ON CONFLICT (part, k) DO UPDATE SET v = excluded.v"
)
_CREATE = text(
    "INSERT INTO lake_kv (part, k, v) VALUES (:part, :k, :v) ON CONFLICT (part, k) DO NOTHING"
)
_REPLACE = text("UPDATE lake_kv SET v = :v WHERE part = :part AND k = :k AND v = :expected")
_DELETE = text("DELETE FROM lake_kv WHERE part = :part AND k = :k")
_DELETE_IF = text("DELETE FROM lake_kv WHERE part = :part AND k = :k AND v = :expected")
# In steps, so that other writers get their turn while a large staging token goes.
_DELETE_SOME = text(
    "DELETE FROM lake_kv WHERE part = :part AND k IN"
    " (SELECT k FROM lake_kv WHERE part = :part ORDER BY k LIMIT :step)"
)
_PAGE = text("SELECT k, v FROM lake_kv WHERE part = :part AND k >= :low ORDER BY k LIMIT :limit")
_PAGE_TO = text(
    "SELECT k, v FROM lake_kv WHERE part = :part AND k >= :low AND k < :high ORDER BY k LIMIT :limit"
)
_DELETE_STEP = 20_000
_WRITE_STEP = 5_000


def open_sql_store(url: str) -> SqlKeyValueStore:
    """Open `sqlite:///FILE`, `postgresql://…` or `postgresql+psycopg://…`, making the table when it is missing.

    A new SQLite file is readable by its owner alone: secrets lie in it.
    """
    parsed = _parse_url(url)
    try:
        engine = _sqlite_engine(parsed) if _is_sqlite(parsed) else _postgres_engine(parsed)
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"the ref store {_masked(parsed)} needs the package {missing.name}, which is not installed;"
            " install lakesweep[postgres]"
        ) from missing
    with _translated(parsed), engine.begin() as connection:
        if not _is_sqlite(parsed):
            # Two servers that start at once would both try to make the table, and one would fail.
            connection.execute(text("SELECT pg_advisory_xact_lock(7305799127)"))
        _METADATA.create_all(connection)
    return SqlKeyValueStore(engine)


class SqlKeyValueStore:
    """One table of (partition, key, value). Compare-and-set is one conditional statement."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # SQLite has one writer at a time and lets the others poll; a lock of our own makes them queue instead.
        self._write_turn: Any = threading.Lock() if _is_sqlite(engine.url) else nullcontext()

    def get(self, partition: str, key: bytes) -> bytes | None:
        with self._statement() as connection:
            row = connection.execute(_GET, {"part": partition.encode(), "k": key}).fetchone()
        return None if row is None else bytes(row[0])

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._write(_SET, {"part": partition.encode(), "k": key, "v": value})

    def set_if(self, partition: str, key: bytes, value: bytes, expected: bytes | None) -> bool:
        parameters = {"part": partition.encode(), "k": key, "v": value}
        if expected is None:
            return self._write(_CREATE, parameters) == 1
        return self._write(_REPLACE, {**parameters, "expected": expected}) == 1

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        part = partition.encode()
        parameters = [{"part": part, "k": key, "v": value} for key, value in rows]
        if not parameters:
            return
        with self._write_turn, _translated(self._engine.url), self._engine.begin() as connection:
            for start in range(0, len(parameters), _WRITE_STEP):
                connection.execute(_SET, parameters[start : start + _WRITE_STEP])

    def delete(self, partition: str, key: bytes) -> None:
        self._write(_DELETE, {"part": partition.encode(), "k": key})

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        parameters = {"part": partition.encode(), "k": key, "expected": expected}
        return self._write(_DELETE_IF, parameters) == 1

    def delete_partition(self, partition: str) -> None:
        parameters = {"part": partition.encode(), "step": _DELETE_STEP}
        while self._write(_DELETE_SOME, parameters) == _DELETE_STEP:
            pass

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        # The least key above `after` is `after` with a zero byte behind it.
        low = prefix if after is None else max(prefix, after + b"\x00")
        parameters: dict[str, object] = {"part": partition.encode(), "low": low, "limit": limit}
        high = end_of_prefix(prefix)
        if high is not None:
            parameters["high"] = high
        with self._statement() as connection:
            result = connection.execute(_PAGE if high is None else _PAGE_TO, parameters)
            # The driver's own tuples: wrapping millions of rows would cost more than reading them.
            rows: list[Row] = list(result.cursor.fetchall())
            result.close()
        return rows

    def close(self) -> None:
        self._engine.dispose()

    def _write(self, statement: Any, parameters: dict[str, Any]) -> int:
        with self._write_turn, self._statement() as connection:
            return connection.execute(statement, parameters).rowcount

    @contextmanager
    def _statement(self) -> Iterator[Connection]:
        """A connection on which each statement is its own transaction."""
        with _translated(self._engine.url), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as wrong:
        raise ConfigError(
            "the ref store's URL is not understood; use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        ) from wrong
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if not _is_sqlite(parsed) and parsed.drivername != "postgresql+psycopg":
        raise ConfigError(
            f"the ref store can't be kept in {parsed.drivername}; use sqlite:///FILE or postgresql://…"
        )
    return parsed


def _sqlite_engine(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("a SQLite ref store needs a file: sqlite:///FILE")
    path = Path(url.database)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # SQLite gives its -wal and -shm files the mode of the database file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)
    engine = create_engine(
        url, pool_size=8, max_overflow=120, connect_args={"timeout": 60, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        for pragma in (
            "journal_mode=WAL",  # readers and the writer do not wait for each other
            "synchronous=FULL",  # what was acknowledged survives a power cut, too
            "cache_size=-16384",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _postgres_engine(url: URL) -> Engine:
    try:
        return create_engine(url, pool_size=8, max_overflow=56, pool_pre_ping=True)
    except NoSuchModuleError as missing:
        raise ConfigError(f"no driver for {_masked(url)}; install lakesweep[postgres]") from missing


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _masked(url: URL) -> str:
    return url.render_as_string(hide_password=True)


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    """The one place where the database's errors become ours."""
    try:
        yield
    except SQLAlchemyError as failed:
        # The driver's message may hold the statement's parameters, and those may hold secrets.
        cause = getattr(failed, "orig", None) or failed
        raise RefStoreError(
            f"the ref store {_masked(url)} did not answer as it should: {type(cause).__name__}: {cause};"
            " whether the last change was made is not known, look before repeating it"
        ) from None
