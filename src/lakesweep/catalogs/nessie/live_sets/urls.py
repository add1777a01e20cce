"""JDBC URLs, as nessie-gc takes them, and SQLAlchemy URLs: both become what the Python drivers understand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lakesweep.catalogs.nessie.live_sets.jdbc_properties import MARIADB, POSTGRESQL, JdbcDriver
from lakesweep.errors import ConfigError

__all__ = ["DatabaseUrl", "parse_database_url"]

_USABLE = (
    "Use jdbc:postgresql://HOST:PORT/DATABASE, jdbc:mariadb://HOST:PORT/DATABASE, jdbc:mysql://…, "
    "postgresql://…, mariadb+pymysql://…, mysql+pymysql://… or sqlite:///FILE."
)
_SQLALCHEMY_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "mariadb": "mariadb+pymysql",
    "mariadb+pymysql": "mariadb+pymysql",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}
_JDBC = re.compile(r"jdbc:(?P<kind>[a-z0-9]+):(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_JDBC_PLACE = re.compile(
    r"//(?P<host>\[[^\]]*\]|[^/?:,()\[\]=]*)(?::(?P<port>\d+))?(?:/(?P<database>.*))?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """An URL for SQLAlchemy, and arguments for the driver that have no place in it."""

    url: URL
    connect_args: Mapping[str, Any] = field(default_factory=dict, repr=False)


def parse_database_url(
    text: str,
    *,
    user: str | None = None,
    password: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> DatabaseUrl:
    """Read either form; `user` and `password` win over what the URL says.

    Raises:
        ConfigError: it is not understood, or asks for what the Python drivers can't do. The message holds no
            password.
    """
    jdbc = _JDBC.fullmatch(text.strip())
    if jdbc is None:
        return _from_sqlalchemy(text.strip(), user, password, properties or {})
    match jdbc["kind"].lower():
        case "postgresql":
            return _from_jdbc(POSTGRESQL, jdbc["rest"], user, password, properties or {})
        case "mariadb" | "mysql":
            return _from_jdbc(MARIADB, jdbc["rest"], user, password, properties or {})
        case "h2":
            raise _refused("H2 is a database inside a Java program; nothing else can open it.")
        case kind:
            raise _refused(f"nessie-gc keeps no live sets in jdbc:{kind}:, and neither do we.")


def _from_jdbc(
    driver: JdbcDriver,
    rest: str,
    user: str | None,
    password: str | None,
    properties: Mapping[str, str],
) -> DatabaseUrl:
    place, _, query = rest.partition("?")
    options = dict(properties) | dict(parse_qsl(query, keep_blank_values=True))
    if not place.startswith("//"):
        if driver is not POSTGRESQL:
            raise _refused(
                "Only one plain server is supported: no replication or failover schemes."
            )
        place = f"///{place.lstrip('/')}"  # jdbc:postgresql:DATABASE is on this machine
    parts = _JDBC_PLACE.fullmatch(place)
    if parts is None:
        raise _refused("Only one host is supported, given as HOST or HOST:PORT.")
    url_user, url_password = options.pop("user", None), options.pop("password", None)
    database = unquote(parts["database"] or "")
    if driver is MARIADB and not database:
        raise _refused("The URL names no database.")
    return DatabaseUrl(
        URL.create(
            driver.drivername,
            username=user if user is not None else url_user,
            password=password if password is not None else url_password,
            host=parts["host"].strip("[]") or "localhost",
            port=int(parts["port"] or driver.default_port),
            database=database or None,
        ),
        driver.arguments(options),
    )


def _from_sqlalchemy(
    text: str, user: str | None, password: str | None, properties: Mapping[str, str]
) -> DatabaseUrl:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise _refused("The database URL is not understood.") from error
    drivername = _SQLALCHEMY_DRIVERS.get(url.drivername.lower())
    if drivername is None:
        raise _refused(f"Live sets can't be kept in {url.drivername!r}.")
    url = url.set(drivername=drivername)
    if drivername == "sqlite":
        return _from_sqlite(url, user, password, properties)
    if user is not None:
        url = url.set(username=user)
    if password is not None:
        url = url.set(password=password)
    driver = POSTGRESQL if drivername.startswith("postgresql") else MARIADB
    if driver is MARIADB and not url.database:
        raise _refused("The URL names no database.")
    return DatabaseUrl(url, driver.arguments(properties))


def _from_sqlite(
    url: URL, user: str | None, password: str | None, properties: Mapping[str, str]
) -> DatabaseUrl:
    if not url.database or url.database == ":memory:":
        raise _refused("SQLite needs a file; for nothing that outlives the process use --inmemory.")
    if user is not None or password is not None or properties:
        raise _refused("SQLite has no user, no password and no connection properties.")
    return DatabaseUrl(url)


def _refused(why: str) -> ConfigError:
    return ConfigError(f"{why} Nothing was done. {_USABLE}", kind="bad-database-url")
