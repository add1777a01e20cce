"""The real lakeFS server, and lakectl pointed at it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakesweep_testing.real_parts import LAKEFS
from lakesweep_testing.servers.minio import MinIOServer
from lakesweep_testing.servers.postgres import PostgresServer
from lakesweep_testing.servers.process import ServerError, ServerProcess, clean_environment

__all__ = ["RealLakeFS"]


class RealLakeFS(ServerProcess):
    """lakeFS with its refs in a local store (or PostgreSQL) and its data on MinIO (or local files).

    Args:
        minio: where the data goes; None keeps it in local files, with namespaces `local://NAME`.
        database: where the refs go; None keeps them in the server's own folder.
        env: LAKEFS_… variables that go over ours, for example a small `LAKEFS_UGC_PREPARE_MAX_FILE_SIZE`.
    """

    name = "lakefs"
    access_key_id = "AKIAIOSFOLTESTONLY00"
    secret_access_key = "test-only-secret-access-key"

    def __init__(
        self,
        minio: MinIOServer | None = None,
        *,
        database: PostgresServer | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._minio = minio
        self._database = database
        self._overrides = dict(env or {})

    def prepare(self) -> None:
        if self._database is None:
            return
        # The installation variables create the first user on a local ref store only.
        words = ["setup", "--user-name", "admin", "--access-key-id", self.access_key_id]
        done = subprocess.run(
            [str(LAKEFS.file("lakefs")), *words, "--secret-access-key", self.secret_access_key],
            env={**clean_environment(self.folder), **self.environment()},
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise ServerError(f"lakefs setup failed:\n{done.stdout}{done.stderr}")

    def command(self) -> Sequence[str | Path]:
        return [LAKEFS.file("lakefs"), "run"]

    def environment(self) -> Mapping[str, str]:
        return {
            "LAKEFS_LISTEN_ADDRESS": f"127.0.0.1:{self.port}",
            "LAKEFS_COMMITTED_LOCAL_CACHE_DIR": str(self.folder / "cache"),
            "LAKEFS_AUTH_ENCRYPT_SECRET_KEY": "test-only-secret",
            "LAKEFS_STATS_ENABLED": "false",
            "LAKEFS_USAGE_REPORT_ENABLED": "false",
            "LAKEFS_SECURITY_CHECK_LATEST_VERSION": "false",
            "LAKEFS_INSTALLATION_USER_NAME": "admin",
            "LAKEFS_INSTALLATION_ACCESS_KEY_ID": self.access_key_id,
            "LAKEFS_INSTALLATION_SECRET_ACCESS_KEY": self.secret_access_key,
            **self._database_environment(),
            **self._blockstore_environment(),
            **self._overrides,
        }

    def is_ready(self) -> bool:
        return self.answers(f"{self.url}/api/v1/healthcheck", 204)

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v1"

    @property
    def namespace_root(self) -> Path:
        """The folder that holds `local://NAME` namespaces, when data is in local files."""
        return self.folder / "objects"

    @property
    def lakectl_environment(self) -> dict[str, str]:
        """The variables that point lakectl (and lakesweep) here."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def lakectl(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real lakectl against this server.

        Raises:
            ServerError: it failed, and `check` asked for success; says what it printed.
        """
        done = subprocess.run(
            [str(LAKEFS.file("lakectl")), *words],
            env=clean_environment(self.folder) | self.lakectl_environment,
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if check and done.returncode:
            said = f"{done.stdout}{done.stderr}"
            raise ServerError(f"lakectl {' '.join(words)} ended with {done.returncode}:\n{said}")
        return done

    def _database_environment(self) -> dict[str, str]:
        if self._database is not None:
            return {
                "LAKEFS_DATABASE_TYPE": "postgres",
                "LAKEFS_DATABASE_POSTGRES_CONNECTION_STRING": self._database.database_url,
            }
        return {
            "LAKEFS_DATABASE_TYPE": "local",
            "LAKEFS_DATABASE_LOCAL_PATH": str(self.folder / "kv"),
        }

    def _blockstore_environment(self) -> dict[str, str]:
        if self._minio is None:
            return {
                "LAKEFS_BLOCKSTORE_TYPE": "local",
                "LAKEFS_BLOCKSTORE_LOCAL_PATH": str(self.namespace_root),
            }
        return {
            "LAKEFS_BLOCKSTORE_TYPE": "s3",
            "LAKEFS_BLOCKSTORE_S3_ENDPOINT": self._minio.url,
            "LAKEFS_BLOCKSTORE_S3_FORCE_PATH_STYLE": "true",
            "LAKEFS_BLOCKSTORE_S3_DISCOVER_BUCKET_REGION": "false",
            "LAKEFS_BLOCKSTORE_S3_REGION": self._minio.region,
            "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_ACCESS_KEY_ID": self._minio.access_key_id,
            "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_SECRET_ACCESS_KEY": self._minio.secret_access_key,
        }
