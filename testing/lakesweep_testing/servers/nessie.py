"""A real Nessie server, its references in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lakesweep_testing.real_parts import JAVA_21, NESSIE
from lakesweep_testing.servers.minio import MinIOServer
from lakesweep_testing.servers.process import ServerProcess, free_port

__all__ = ["NessieServer"]


class NessieServer(ServerProcess):
    """Nessie's REST API v2; with a MinIO server and a warehouse in one of its buckets, an Iceberg REST catalog too."""

    name = "nessie"

    def __init__(
        self,
        *,
        minio: MinIOServer | None = None,
        warehouse: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        if (minio is None) != (warehouse is None):
            raise ValueError("an Iceberg REST catalog takes a MinIO server and a warehouse in it")
        self._minio = minio
        self._warehouse = warehouse
        self._more_properties = dict(properties or {})
        self._management_port = 0

    @property
    def uri(self) -> str:
        """What `--uri` takes."""
        return f"{self.url}/api/v2"

    @property
    def iceberg_uri(self) -> str:
        """What an Iceberg REST client takes."""
        return f"{self.url}/iceberg/"

    def command(self) -> Sequence[str | Path]:
        self._management_port = free_port()
        return [
            JAVA_21.file(),
            *("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Djava.io.tmpdir={self.folder}",
            *(f"-D{name}={value}" for name, value in self._properties().items()),
            *("-jar", NESSIE.file()),
        ]

    def is_ready(self) -> bool:
        return self.answers(f"http://127.0.0.1:{self._management_port}/q/health/ready")

    def _properties(self) -> dict[str, str]:
        properties = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(self._management_port),
            "nessie.version.store.type": "IN_MEMORY",
        }
        if self._minio is not None and self._warehouse is not None:
            properties |= _iceberg_catalog(self._minio, self._warehouse)
        return properties | self._more_properties


def _iceberg_catalog(minio: MinIOServer, warehouse: str) -> dict[str, str]:
    s3 = "nessie.catalog.service.s3.default-options"
    # The secret's own name must lie outside `nessie.catalog.`.
    secret = "my-secrets.s3"
    return {
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": warehouse,
        f"{s3}.endpoint": minio.url,
        f"{s3}.path-style-access": "true",
        f"{s3}.region": minio.region,
        f"{s3}.request-signing-enabled": "false",
        f"{s3}.access-key": f"urn:nessie-secret:quarkus:{secret}",
        f"{secret}.name": minio.access_key_id,
        f"{secret}.secret": minio.secret_access_key,
    }
