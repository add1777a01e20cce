"""MinIO: a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
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

    def client(self, service: str = "s3") -> Any:
        """A botocore client of S3, or of STS, with the root user's credentials."""
        return botocore.session.Session().create_client(
            service,
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

    def temporary_key(self, ends_at: datetime, name: str = "collector") -> dict[str, Any]:
        """A new key of AssumeRole, as STS tells it, with every right on S3 until a time.

        MinIO gives keys for a quarter of an hour at least, so the session's policy ends before: by it MinIO itself refuses
        the key from then on.
        """
        until = {"DateLessThan": {"aws:CurrentTime": f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"}}
        allowed = {
            "Effect": "Allow",
            "Action": ["s3:*"],
            "Resource": ["arn:aws:s3:::*"],
            "Condition": until,
        }
        answer = self.client("sts").assume_role(
            RoleArn="arn:aws:iam::123456789012:role/collector",
            RoleSessionName=name,
            Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}),
        )
        given: dict[str, Any] = answer["Credentials"]
        return given

    @property
    def aws_environment(self) -> dict[str, str]:
        """The AWS default variables that point an ordinary client here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }
