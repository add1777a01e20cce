"""The real servers start, serve and stop; every other real test stands on that."""

from __future__ import annotations

import os
import urllib.request
import uuid

import pytest

from lakesweep_testing.servers import (
    AzuriteServer,
    FakeGcsServer,
    MinIOServer,
    PostgresServer,
    RealLakeFS,
)

pytestmark = pytest.mark.real


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"


def test_minio_keeps_what_is_put(minio: MinIOServer) -> None:
    """A bucket made through the helper takes an object and gives it back."""
    bucket = unique("servers")
    minio.make_bucket(bucket)
    client = minio.client()
    client.put_object(Bucket=bucket, Key="a/b", Body=b"x")
    assert client.get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"x"


def test_azurite_accepts_a_signed_container(azurite: AzuriteServer) -> None:
    """The hand-signed request makes a container once, and a second one is refused as existing."""
    container = unique("servers")
    assert azurite.make_container(container).endswith(container)
    with pytest.raises(OSError, match="409"):
        azurite.make_container(container)


def test_fake_gcs_serves_seeded_objects(fake_gcs: FakeGcsServer) -> None:
    """A seeded object can be read by its URL."""
    bucket = unique("servers")
    fake_gcs.make_bucket(bucket)
    fake_gcs.put_object(bucket, "a/b", b"x")
    url = f"{fake_gcs.url}/storage/v1/b/{bucket}/o/a%2Fb?alt=media"
    with urllib.request.urlopen(url, timeout=10) as reply:
        assert reply.read() == b"x"


def test_lakectl_reaches_lakefs_on_minio(minio: MinIOServer, real_lakefs: RealLakeFS) -> None:
    """The first user's credentials work, and a repository can be made on a MinIO bucket."""
    bucket = unique("servers")
    minio.make_bucket(bucket)
    repository = unique("servers")
    real_lakefs.lakectl("repo", "create", f"lakefs://{repository}", f"s3://{bucket}/ns")
    assert repository in real_lakefs.lakectl("repo", "list").stdout


def test_lakefs_on_local_files_with_postgres(postgres: PostgresServer) -> None:
    """Local block storage and PostgreSQL refs work, and a restart keeps the data and the address."""
    with RealLakeFS(database=postgres) as lakefs:
        repository = unique("servers")
        lakefs.lakectl("repo", "create", f"lakefs://{repository}", f"local://{repository}")
        url = lakefs.url
        lakefs.restart()
        assert lakefs.url == url
        assert repository in lakefs.lakectl("repo", "list").stdout
        assert (lakefs.namespace_root / repository).is_dir()


def test_a_database_of_its_own(postgres: PostgresServer) -> None:
    """Each test can have its own database."""
    import psycopg

    with psycopg.connect(postgres.make_database(unique("db"))) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_leaving_the_block_ends_the_process_and_removes_its_folder() -> None:
    """Nothing of a server is left when its block ends."""
    with FakeGcsServer() as server:
        pid, folder = server.pid, server.folder
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
