"""A real lakeFS on MinIO, and ways to collect its repositories."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.engine.tasks import Engine
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.servers import MinIOServer, RealLakeFS
from lakesweep_testing.user import User


@pytest.fixture(scope="session")
def lake_bucket(minio: MinIOServer) -> str:
    return minio.make_bucket(f"runs-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session")
def minio_options(minio: MinIOServer) -> StorageOptions:
    return StorageOptions(
        s3_access_key_id=minio.access_key_id,
        s3_secret_access_key=minio.secret_access_key,
        s3_endpoint=minio.url,
        s3_region=minio.region,
    )


OpenRun = Callable[..., RunContext]


@pytest.fixture
def open_run(real_lakefs: RealLakeFS, minio_options: StorageOptions) -> Iterator[OpenRun]:
    """`open_run(repository)`: a fresh run context, in process unless an engine is given."""
    with LakeFSClient(
        real_lakefs.api_url, real_lakefs.access_key_id, real_lakefs.secret_access_key
    ) as client:

        def open_it(repository: str, engine: Engine | None = None) -> RunContext:
            return open_repository(client, repository, minio_options, engine or InProcessEngine())

        yield open_it


@pytest.fixture
def api(real_lakefs: RealLakeFS) -> Iterator[httpx.Client]:
    """The server's REST API with its administrator's credentials."""
    auth = (real_lakefs.access_key_id, real_lakefs.secret_access_key)
    with httpx.Client(base_url=real_lakefs.api_url, auth=auth, timeout=60) as client:
        yield client


@pytest.fixture
def new_user(api: httpx.Client, lake_bucket: str) -> Callable[[], User]:
    """A new repository, and a user of it."""

    def make() -> User:
        name = f"repo-{uuid.uuid4().hex[:10]}"
        return User.create(api, name, f"{lake_bucket}/{name}")

    return make
