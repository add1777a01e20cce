"""MinIO: a real S3 server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config

from lakesweep_testing.real_parts import MINIO
from lakesweep_testing.servers.process import ServerProcess, free_port

__all__ = ["MinIOServer"]


class MinIOServer(ServerProcess):
    """S3 with path-style addresses in region us-east-1."""

    name = "minio"
    region = "us-east-1"
    access_key_id = "minioadmin"
    secret_access_key = "minioadmin"

    def command(self) -> Sequence[str | Path]:
        return [
            *(MINIO.file(), "server", "--quiet"),
            *("--address", f"127.0.0.1:{self.port}"),
            *("--console-address", f"127.0.0.1:{free_port()}"),
            self.folder / "data",
        ]

    def environment(self) -> Mapping[str, str]:
        return {
            "MINIO_ROOT_USER": self.access_key_id,
            "MINIO_ROOT_PASSWORD": self.secret_access_key,
            "MINIO_UPDATE": "off",
        }

    def is_ready(self) -> bool:
        return self.answers(f"{self.url}/minio/health/live")

    def client(self) -> Any:
        """A botocore S3 client with the root user's credentials."""
        return botocore.session.Session().create_client(
            "s3",
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def make_bucket(self, bucket: str) -> str:
        """Create a bucket and return its URI."""
        self.client().create_bucket(Bucket=bucket)
        return f"s3://{bucket}"

    @property
    def aws_environment(self) -> dict[str, str]:
        """The AWS default variables that point an ordinary client here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }
