"""Connection properties of the two JDBC drivers that nessie-gc brings, in the Python drivers' words."""

from __future__ import annotations

import difflib
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from lakesweep.errors import ConfigError

__all__ = ["MARIADB", "POSTGRESQL", "JdbcDriver"]

logger = logging.getLogger(__name__)

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JdbcDriver:
    """What a JDBC driver's properties mean; `needless` ones tune Java and change no result."""

    name: str
    drivername: str
    default_port: int
    translations: Mapping[str, Callable[[str, Mapping[str, str]], Arguments]]
    needless: frozenset[str]

    def arguments(self, properties: Mapping[str, str]) -> Arguments:
        """Arguments for the Python driver.

        Raises:
            ConfigError: a property is unknown; ignored, it could change what is connected to, or how safely.
        """
        found: Arguments = {}
        for name, value in properties.items():
            if name in self.translations:
                found |= self.translations[name](value, properties)
            elif name in self.needless:
                logger.info("the connection property %s has no meaning here; left out", name)
            else:
                raise self._unknown(name)
        return found

    def _unknown(self, name: str) -> ConfigError:
        near = difflib.get_close_matches(name, self.translations, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return ConfigError(
            f"The connection property {name!r} of jdbc:{self.name}: is not supported.{hint} Nothing was done. "
            f"Supported: {', '.join(sorted(self.translations))}.",
            kind="bad-jdbc-property",
        )


def _same(name: str) -> Callable[[str, Mapping[str, str]], Arguments]:
    return lambda value, _: {name: value}


def _seconds(name: str) -> Callable[[str, Mapping[str, str]], Arguments]:
    return lambda value, _: {name: _number(value)}


def _milliseconds(*names: str) -> Callable[[str, Mapping[str, str]], Arguments]:
    def translate(value: str, _: Mapping[str, str]) -> Arguments:
        seconds = ceil(_number(value) / 1000)
        return dict.fromkeys(names, seconds) if seconds else {}  # 0 means: no limit

    return translate


def _number(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ConfigError(f"{value!r} is not a number of seconds.", kind="bad-jdbc-property")
    return int(value)


def _is_true(value: str) -> bool:
    return value.lower() in {"", "true", "1"}


def _postgresql_ssl(value: str, properties: Mapping[str, str]) -> Arguments:
    # `ssl=true` alone means a full check of the server, in the JDBC driver.
    return {"sslmode": "verify-full"} if _is_true(value) and "sslmode" not in properties else {}


def _mariadb_ssl(value: str, properties: Mapping[str, str]) -> Arguments:
    return {} if "sslMode" in properties or not _is_true(value) else _tls("verify-full", properties)


def _tls(mode: str, properties: Mapping[str, str]) -> Arguments:
    match mode.lower().replace("_", "-"):
        case "disable" | "disabled":
            return {"ssl_disabled": True}
        case "trust" | "required" | "verify-ca" | "verify-full" | "verify-identity" as wanted:
            context = ssl.create_default_context(cafile=properties.get("serverSslCert"))
            context.check_hostname = wanted in {"verify-full", "verify-identity"}
            if wanted in {"trust", "required"}:
                context.verify_mode = ssl.CERT_NONE
            return {"ssl": context}
    raise ConfigError(
        f"sslMode={mode} is not known; use disable, trust, verify-ca or verify-full.",
        kind="bad-jdbc-property",
    )


POSTGRESQL = JdbcDriver(
    name="postgresql",
    drivername="postgresql+psycopg",
    default_port=5432,
    translations={
        "ssl": _postgresql_ssl,
        **{
            name: _same(name) for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "options")
        },
        "ApplicationName": _same("application_name"),
        "connectTimeout": _seconds("connect_timeout"),
        "loginTimeout": _seconds("connect_timeout"),
        "currentSchema": lambda value, _: {"options": f"-csearch_path={value}"},
    },
    needless=frozenset(
        {
            *("reWriteBatchedInserts", "prepareThreshold", "preparedStatementCacheQueries"),
            *("preparedStatementCacheSizeMiB", "defaultRowFetchSize", "binaryTransfer"),
            *("stringtype", "tcpKeepAlive", "tcpNoDelay", "socketTimeout", "cancelSignalTimeout"),
            *("assumeMinServerVersion", "logUnclosedConnections", "autosave", "cleanupSavepoints"),
        }
    ),
)
MARIADB = JdbcDriver(
    name="mariadb",
    drivername="mariadb+pymysql",
    default_port=3306,
    translations={
        "sslMode": _tls,
        "useSsl": _mariadb_ssl,
        "useSSL": _mariadb_ssl,
        "serverSslCert": lambda _value, properties: (
            {}
            if {"sslMode", "useSsl", "useSSL"} & properties.keys()
            else _tls("verify-full", properties)
        ),
        "connectTimeout": _milliseconds("connect_timeout"),
        "socketTimeout": _milliseconds("read_timeout", "write_timeout"),
    },
    needless=frozenset(
        {
            *("useServerPrepStmts", "cachePrepStmts", "prepStmtCacheSize", "useBulkStmts"),
            *("useBulkStmtsForInserts", "rewriteBatchedStatements", "useCompression"),
            *("useUnicode", "characterEncoding", "defaultFetchSize", "tcpKeepAlive", "tcpNoDelay"),
            # Ours are UTC always.
            *("timezone", "connectionTimeZone", "serverTimezone", "allowPublicKeyRetrieval"),
        }
    ),
)
