"""MariaDB from the distribution's packages."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakesweep_testing.real_parts import MARIADB
from lakesweep_testing.servers.process import ServerError, ServerProcess, clean_environment

__all__ = ["MariaDBServer"]


class MariaDBServer(ServerProcess):
    """An empty server with a superuser `root` without a password, on loopback.

    Its settings are the program's own, not the distribution's: text is latin1 and compares without regard to
    case, which is the worst that a user's server may be set to. `options` are more words for the command line.
    """

    name = "mariadb"

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options

    def prepare(self) -> None:
        words = ["--no-defaults", f"--basedir={_base()}", f"--datadir={self.folder / 'data'}"]
        done = subprocess.run(
            [
                str(MARIADB.file("usr/bin/mariadb-install-db")),
                *words,
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
                *("--skip-name-resolve", *_as_root()),
            ],
            env={**clean_environment(self.folder), **self.environment()},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServerError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")

    def command(self) -> Sequence[str | Path]:
        return [
            *(MARIADB.file(), "--no-defaults", f"--basedir={_base()}"),
            *(f"--datadir={self.folder / 'data'}", f"--pid-file={self.folder / 'pid'}"),
            # Relative to the data folder: a socket's whole path may be too long for the system.
            *("--socket=s.sock", "--bind-address=127.0.0.1", f"--port={self.port}"),
            *("--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", *_as_root()),
            *self._options,
        ]

    def environment(self) -> Mapping[str, str]:
        """Libraries that came with the packages because the machine lacks them."""
        folders = sorted({str(file.parent) for file in MARIADB.folder.rglob("lib*.so.*")})
        return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2):
                return "ready for connections" in self.log_tail()
        except OSError:
            return False

    def make_database(self, database: str, *, charset: str | None = None) -> str:
        """Create a database and return its SQLAlchemy URL."""
        import pymysql

        charset_clause = f" CHARACTER SET {charset}" if charset else ""
        with (
            pymysql.connect(host="127.0.0.1", port=self.port, user="root") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE `{database}`{charset_clause}")
        return f"mariadb+pymysql://root@127.0.0.1:{self.port}/{database}"


def _base() -> Path:
    return MARIADB.folder / "usr"


def _as_root() -> tuple[str, ...]:
    # Root has to say that it means it.
    return ("--user=root",) if os.geteuid() == 0 else ()
