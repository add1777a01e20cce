"""From a database's URL to its live sets."""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.errors import ConfigError


def open_live_sets(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    properties: Mapping[str, str] | None = None,
    pool_size: int = 5,
    fetch_size: int = 100,
) -> LiveSetStore:
    """Open the database at a JDBC URL (PostgreSQL, MariaDB, MySQL) or a SQLAlchemy URL (SQLite, too).

    `properties` are JDBC connection properties. Tables are not made here.

    Raises:
        ConfigError: the URL or a property is not understood, or the database's driver is not installed.
    """
    try:
        from lakesweep.catalogs.nessie.live_sets.connecting import make_engine
        from lakesweep.catalogs.nessie.live_sets.sql import SqlLiveSets
        from lakesweep.catalogs.nessie.live_sets.urls import parse_database_url

        database = parse_database_url(url, user=user, password=password, properties=properties)
        return SqlLiveSets(make_engine(database, pool_size=pool_size), fetch_size=fetch_size)
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"Live sets in a database need the Python package {missing.name!r}, which is not installed. "
            "Nothing was done. Run `pip install 'lakesweep[nessie,postgres]'`.",
            kind="no-driver",
        ) from missing
