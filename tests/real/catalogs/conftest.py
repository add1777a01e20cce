"""Repositories on the real lakeFS, and a user who writes to them with plain HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.domain.location import Location
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep_testing.servers import MinIOServer, RealLakeFS


@dataclass(frozen=True)
class User:
    """Writes to one repository, the way any client would."""

    http: httpx.Client
    repository: str
    client: LakeFSClient
    store: ObjectStore
    normaliser: AddressNormaliser

    def call(self, method: str, route: str, **more: Any) -> httpx.Response:
        answer = self.http.request(method, f"repositories/{self.repository}/{route}", **more)
        answer.raise_for_status()
        return answer

    def branch(self, name: str, source: str, *, hidden: bool = False) -> None:
        self.call("POST", "branches", json={"name": name, "source": source, "hidden": hidden})

    def delete_branch(self, name: str) -> None:
        self.call("DELETE", f"branches/{name}")

    def upload(self, branch: str, path: str, data: bytes) -> str:
        """Give the address relative to the namespace."""
        answer = self.call(
            "POST",
            f"branches/{branch}/objects",
            params={"path": path},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )
        relative = self.normaliser.relative(answer.json()["physical_address"])
        assert relative is not None
        return relative

    def delete(self, branch: str, path: str) -> None:
        self.call("DELETE", f"branches/{branch}/objects", params={"path": path})

    def commit(self, branch: str, message: str, at: datetime) -> str:
        body = {"message": message, "date": int(at.timestamp()), "allow_empty": True}
        return str(self.call("POST", f"branches/{branch}/commits", json=body).json()["id"])

    def set_rules(self, default: int, **branches: int) -> None:
        rows = [{"branch_id": b, "retention_days": d} for b, d in branches.items()]
        body = {"default_retention_days": default, "branches": rows}
        self.call("PUT", "settings/gc_rules", json=body)


def new_user(server: RealLakeFS, minio: MinIOServer) -> User:
    """A repository in a bucket of its own, and its user."""
    name = f"catalogs-{uuid.uuid4().hex[:10]}"
    namespace = f"{minio.make_bucket(name)}/ns"
    options = StorageOptions.from_environment(minio.aws_environment)
    http = httpx.Client(
        base_url=f"{server.url}/api/v1/",
        auth=(server.access_key_id, server.secret_access_key),
        timeout=60,
        trust_env=False,
    )
    http.post(
        "repositories", json={"name": name, "storage_namespace": namespace}
    ).raise_for_status()
    location = Location.parse(namespace)
    client = LakeFSClient(server.url, server.access_key_id, server.secret_access_key)
    return User(http, name, client, open_store(location, options), AddressNormaliser(location))


@pytest.fixture
def make_user(real_lakefs: RealLakeFS, minio: MinIOServer) -> Iterator[Any]:
    """`make_user()` gives a new repository; all are closed at the end."""
    users: list[User] = []

    def make(server: RealLakeFS = real_lakefs) -> User:
        users.append(new_user(server, minio))
        return users[-1]

    yield make
    for user in users:
        user.http.close()
        user.client.close()


@pytest.fixture
def user(make_user: Any) -> User:
    return make_user()
