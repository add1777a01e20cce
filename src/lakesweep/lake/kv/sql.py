"""Opening the ref store that a URL names: a SQLite file (one machine) or PostgreSQL (several machines)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lakesweep.errors import ConfigError
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.kv.postgres import open_postgres_store
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore


def open_sql_store(url: str) -> KeyValueStore:
    """Open `sqlite:///FILE`, `postgresql://…` or `postgresql+psycopg://…`, making the table when it is missing."""
    parsed = _parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        return open_postgres_store(parsed)
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigError("a SQLite ref store needs a file: sqlite:///FILE")
    return SqliteKeyValueStore(Path(parsed.database))


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as wrong:
        raise ConfigError(
            "the ref store's URL is not understood; use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        ) from wrong
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise ConfigError(
            f"the ref store can't be kept in {parsed.drivername}; use sqlite:///FILE or postgresql://…"
        )
    return parsed
