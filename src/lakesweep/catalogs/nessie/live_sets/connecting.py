"""Connections to each kind of database, and the one place where their errors become ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import SQLAlchemyError

from lakesweep.catalogs.nessie.live_sets.schema import LIVE_SETS
from lakesweep.catalogs.nessie.live_sets.urls import DatabaseUrl
from lakesweep.errors import CatalogDeniedError, CatalogError, ConfigError

__all__ = ["is_mysql", "make_engine", "translated"]

_SMALLEST_POOL = 2
# A server closes a connection that nobody uses, and a pool that knows that does not hand it out.
_CONNECTION_LIFE_SECONDS = 300

_DENIED_MYSQL_CODES = {1044, 1045, 1142, 1227, 1698}
_DENIED_SQLSTATES = ("28", "42501")
# Of PostgreSQL to whoever may not connect; the driver knows no state of a connection that it did not get.
_DENIED_WORDS = re.compile(
    "password authentication failed|is not permitted to log in|no pg_hba.conf entry|"
    'permission denied for database|role ".*" does not exist'
)


def make_engine(database: DatabaseUrl, *, pool_size: int) -> Engine:
    """An engine that connects on first use."""
    options: dict[str, Any] = {
        "connect_args": database.connect_args,
        "pool_size": max(pool_size, _SMALLEST_POOL),
        "pool_recycle": _CONNECTION_LIFE_SECONDS,
        "pool_pre_ping": True,
    }
    backend = database.url.get_backend_name()
    if backend == "sqlite":
        engine = create_engine(database.url, **options)
        _prepare_sqlite(engine)
        return engine
    engine = create_engine(database.url, isolation_level="READ COMMITTED", **options)
    if is_mysql(engine):
        _prepare_mysql(engine)
    return engine


def is_mysql(engine: Engine) -> bool:
    """Whether it is MySQL or MariaDB."""
    return engine.dialect.name in {"mysql", "mariadb"}


def _prepare_sqlite(engine: Engine) -> None:
    path = engine.url.database
    assert path is not None
    folder = Path(path).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--jdbc-url: the folder {folder} can't be made: {error.strerror}. Nothing was touched. Name a file in a folder "
            "that can be made, or that is there.",
            kind="bad-database-url",
        ) from error

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        # Python's driver begins transactions too late for savepoints; we begin them ourselves, below.
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout=60000")
        connection.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A writer that begins as a reader can't wait for another writer: it fails at once.
        is_writer = connection.get_execution_options().get("is_writer", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


def _prepare_mysql(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            # Strict: a value that a column can't hold is an error, never a cut or altered value.
            # The session's time zone stays the server's, as nessie-gc leaves it: a zone-less time that one
            # tool writes is then the time that the other reads.
            cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'")


@contextmanager
def translated(engine: Engine) -> Iterator[None]:
    """Turn what the database says into errors of ours, without the statement's values."""
    try:
        yield
    except SQLAlchemyError as failed:
        raise _translate(engine, failed) from None


def _translate(engine: Engine, failed: SQLAlchemyError) -> CatalogError | ConfigError:
    where = engine.url.render_as_string(hide_password=True)
    cause = getattr(failed, "orig", None) or failed
    said = f"{type(cause).__name__}: {cause}"
    if _is_denied(cause):
        return CatalogDeniedError(
            f"The database {where} did not allow it: {said}. "
            "Check --jdbc-user and --jdbc-password, and the user's rights on the gc_ tables.",
            kind="live-sets-denied",
        )
    if _lacks_tables(engine):
        return ConfigError(
            f"The database {where} has no table {LIVE_SETS.name}. Nothing was done. "
            "Run `lakesweep nessie create-sql-schema` first, or give --jdbc-schema CREATE_IF_NOT_EXISTS.",
            kind="no-schema",
        )
    return CatalogError(
        f"The database {where} did not do what was asked: {said}. "
        "Whether it stored what it was given is not known. Run again when the database is fit.",
        kind="live-sets",
    )


def _is_denied(cause: BaseException) -> bool:
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str) and state.startswith(_DENIED_SQLSTATES):
        return True
    if _DENIED_WORDS.search(str(cause)):
        return True
    return bool(cause.args) and cause.args[0] in _DENIED_MYSQL_CODES


def _lacks_tables(engine: Engine) -> bool:
    try:
        return not inspect(engine).has_table(LIVE_SETS.name)
    except SQLAlchemyError:
        return False
