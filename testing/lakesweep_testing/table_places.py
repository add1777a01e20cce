"""Where tables of a test lie: local files or MinIO. Listed without any code of ours, so that an oracle may use it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from lakesweep.storage import StorageOptions
from lakesweep_testing.servers.minio import MinIOServer

__all__ = ["LocalPlace", "MinIOPlace", "TablePlace", "Times", "plain"]

Times = dict[str, datetime]


class TablePlace(Protocol):
    """A folder for tables, and how each of their readers gets there."""

    root: str

    @property
    def storage(self) -> StorageOptions:
        """What our collector takes."""

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg takes."""

    def files(self, folder: str) -> Times:
        """Every file below a folder, by its plain name, and when it was modified."""

    def read(self, uri: str) -> bytes:
        """A whole file."""

    def write(self, uri: str, data: bytes) -> None:
        """Put a file there."""


def plain(uri: str) -> str:
    """One spelling for a place: s3:// whatever the S3 client was, file:/// whoever wrote it, no slash at the end."""
    parts = urlsplit(uri)
    scheme = {"s3a": "s3", "s3n": "s3", "": "file"}.get(parts.scheme, parts.scheme)
    # Not the parsed path: a file's name may hold characters that mean something in a URL.
    path = uri[len(parts.scheme) + 1 :] if parts.scheme else uri
    path = path.removeprefix("//").removeprefix(parts.netloc) if path.startswith("//") else path
    return f"{scheme}://{parts.netloc}{path}".rstrip("/")


@dataclass(frozen=True)
class LocalPlace:
    """A folder of this machine."""

    folder: Path

    @property
    def root(self) -> str:
        return self.folder.as_uri()

    @property
    def storage(self) -> StorageOptions:
        return StorageOptions(local_fsync=False)

    @property
    def properties(self) -> dict[str, str]:
        return {}

    def files(self, folder: str) -> Times:
        """As Hadoop lists: without the hidden checksums that it writes beside its files."""
        return {
            name: at for name, at in self.files_and_checksums(folder).items() if not _is_crc(name)
        }

    def files_and_checksums(self, folder: str) -> Times:
        """All that the system lists."""
        found: Times = {}
        for parent, _, names in os.walk(urlsplit(folder).path):
            for path in (Path(parent, name) for name in names):
                found[f"file://{path}"] = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return found

    def read(self, uri: str) -> bytes:
        return Path(plain(uri).removeprefix("file://")).read_bytes()

    def write(self, uri: str, data: bytes) -> None:
        path = Path(plain(uri).removeprefix("file://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@dataclass(frozen=True)
class MinIOPlace:
    """A folder of a bucket."""

    minio: MinIOServer
    root: str

    @property
    def storage(self) -> StorageOptions:
        return StorageOptions(
            s3_endpoint=self.minio.url,
            s3_region=self.minio.region,
            s3_access_key_id=self.minio.access_key_id,
            s3_secret_access_key=self.minio.secret_access_key,
            s3_path_style=True,
            local_fsync=False,
        )

    @property
    def properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.minio.url,
            "s3.region": self.minio.region,
            "s3.access-key-id": self.minio.access_key_id,
            "s3.secret-access-key": self.minio.secret_access_key,
        }

    @cached_property
    def _client(self) -> Any:
        return self.minio.client()

    def files(self, folder: str) -> Times:
        bucket, prefix = _bucket_and_key(folder)
        pages = self._client.get_paginator("list_objects_v2")
        return {
            f"s3://{bucket}/{found['Key']}": found["LastModified"]
            for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix}/")
            for found in page.get("Contents", [])
        }

    def read(self, uri: str) -> bytes:
        bucket, key = _bucket_and_key(uri)
        found: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return found

    def write(self, uri: str, data: bytes) -> None:
        bucket, key = _bucket_and_key(uri)
        self._client.put_object(Bucket=bucket, Key=key, Body=data)


def _is_crc(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".crc")


def _bucket_and_key(uri: str) -> tuple[str, str]:
    bucket, _, key = plain(uri).removeprefix("s3://").partition("/")
    return bucket, key
