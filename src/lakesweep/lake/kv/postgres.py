"""The ref store on PostgreSQL, for servers on several machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    create_engine,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from lakesweep.errors import ConfigError
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.kv.interface import (
    PAGE_ROWS,
    Change,
    Held,
    Note,
    Row,
    end_of_prefix,
    write_over_in_steps,
)

# All columns are bytes: those are ordered bytewise, whatever collation the server was set up with.
_METADATA = MetaData()
_TABLE = Table(
    "lake_kv",
    _METADATA,
    Column("part", LargeBinary, primary_key=True),
    Column("k", LargeBinary, primary_key=True),
    Column("v", LargeBinary, nullable=False),
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
# Locked until the write is made: who would remove the record waits for it, or was first and is seen.
_IS_HELD = "EXISTS (SELECT 1 FROM lake_kv WHERE part = :held_part AND k = :held_k AND v = :held_v FOR SHARE)"
_HOLD = text("SELECT 1 FROM lake_kv WHERE part = :part AND k = :k AND v = :v FOR SHARE")
_CREATE_HELD = text(
    f"INSERT INTO lake_kv (part, k, v) SELECT :part, :k, :v WHERE {_IS_HELD}"
    " ON CONFLICT (part, k) DO NOTHING"
)
_REPLACE_HELD = text(f"{_REPLACE.text} AND {_IS_HELD}")
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
_DO_NOT_WAIT = text("SET LOCAL synchronous_commit TO OFF")  # the log keeps the order of commits
_DELETE_STEP = 20_000
_WRITE_STEP = 5_000


def open_postgres_store(url: URL) -> PostgresKeyValueStore:
    """Open the database, making the table when it is missing."""
    try:
        engine = create_engine(url, pool_size=8, max_overflow=56, pool_pre_ping=True)
    except NoSuchModuleError as missing:
        raise ConfigError(f"no driver for {_masked(url)}; install lakesweep[postgres]") from missing
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"the ref store {_masked(url)} needs the package {missing.name}, which is not installed;"
            " install lakesweep[postgres]"
        ) from missing
    with _translated(url), engine.begin() as connection:
        # Two servers that start at once would both try to make the table, and one would fail.
        connection.execute(text("SELECT pg_advisory_xact_lock(7305799127)"))
        _METADATA.create_all(connection)
    return PostgresKeyValueStore(engine)


class PostgresKeyValueStore:
    """One table of (partition, key, value). Compare-and-set is one conditional statement."""

    is_remote = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, partition: str, key: bytes) -> bytes | None:
        with self._statement() as connection:
            row = connection.execute(_GET, {"part": partition.encode(), "k": key}).fetchone()
        return None if row is None else bytes(row[0])

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._write(_SET, {"part": partition.encode(), "k": key, "v": value})

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        parameters = {"part": partition.encode(), "k": key, "v": value}
        if held is not None:
            names = ("held_part", "held_k", "held_v")
            parameters |= zip(names, (held[0].encode(), *held[1:]), strict=True)
        if expected is None:
            return self._write(_CREATE if held is None else _CREATE_HELD, parameters) == 1
        replace = _REPLACE if held is None else _REPLACE_HELD
        return self._write(replace, {**parameters, "expected": expected}) == 1

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        part = partition.encode()
        parameters = [{"part": part, "k": key, "v": value} for key, value in rows]
        if not parameters:
            return
        with _translated(self._engine.url), self._engine.begin() as connection:
            for start in range(0, len(parameters), _WRITE_STEP):
                connection.execute(_SET, parameters[start : start + _WRITE_STEP])

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        with _translated(self._engine.url), self._engine.begin() as connection:
            if not is_durable:
                connection.execute(_DO_NOT_WAIT)
            for partition, key, value in sorted(held):
                found = connection.execute(
                    _HOLD, {"part": partition.encode(), "k": key, "v": value}
                )
                if found.fetchone() is None:
                    connection.rollback()
                    return False
            # In one order, so that no two wait for each other.
            for change in sorted(changes, key=lambda change: change[:2]):
                if not _make(connection, change):
                    connection.rollback()
                    return False
        return True

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        return write_over_in_steps(self, partition, rows, note, held)

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
        with self._statement() as connection:
            return connection.execute(statement, parameters).rowcount

    @contextmanager
    def _statement(self) -> Iterator[Connection]:
        """A connection on which each statement is its own transaction."""
        with _translated(self._engine.url), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")


def _make(connection: Connection, change: Change) -> bool:
    """Make one change of a transaction; False when something else than it expects is there."""
    part = {"part": change.partition.encode(), "k": change.key}
    if change.value is None:
        if change.expected is ...:
            connection.execute(_DELETE, part)
            return True
        return connection.execute(_DELETE_IF, {**part, "expected": change.expected}).rowcount == 1
    row = {**part, "v": change.value}
    if change.expected is ...:
        connection.execute(_SET, row)
        return True
    if change.expected is None:
        return connection.execute(_CREATE, row).rowcount == 1
    return connection.execute(_REPLACE, {**row, "expected": change.expected}).rowcount == 1


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
