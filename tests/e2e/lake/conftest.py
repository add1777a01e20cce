"""One embedded lake for the session, a repository of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config

from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Api:
    """Requests to a server's REST API, paths relative to `/api/v1`."""

    server: LakeServer
    client: httpx.Client

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        return self.client.request(method, self.server.endpoint + path, **how)


@dataclass(frozen=True, slots=True)
class Repo:
    """Requests to one repository, paths relative to it."""

    api: Api
    name: str
    folder: Path

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        return self.api.send(method, f"/repositories/{self.name}{path}", **how)

    def ok(self, method: str, path: str, **how: Any) -> Any:
        """The JSON of a reply that must not be an error."""
        reply = self.send(method, path, **how)
        assert reply.is_success, f"{method} {path}: {reply.status_code} {reply.text}"
        return (
            reply.json() if reply.headers.get("content-type") == "application/json" else reply.text
        )

    def put(self, path: str, content: bytes = b"data", branch: str = "main", **headers: str) -> Any:
        return self.ok(
            "POST",
            f"/branches/{branch}/objects",
            params={"path": path},
            content=content,
            headers=headers,
        )

    def commit(self, message: str = "a commit", branch: str = "main", **body: Any) -> Any:
        return self.ok("POST", f"/branches/{branch}/commits", json={"message": message, **body})

    def branch(self, name: str, source: str = "main") -> str:
        made: str = self.ok("POST", "/branches", json={"name": name, "source": source})
        return made

    def get(self, path: str, ref: str = "main", **headers: str) -> httpx.Response:
        return self.send("GET", f"/refs/{ref}/objects", params={"path": path}, headers=headers)

    def paths(self, ref: str = "main") -> list[str]:
        listed = self.ok("GET", f"/refs/{ref}/objects/ls")
        return [entry["path"] for entry in listed["results"]]

    def bytes_of(self, physical_address: str) -> Path:
        """The file behind an address in this repository's local namespace."""
        return self.folder.parent / physical_address.removeprefix("local://")


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder of local files that the server may import from."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, outside: Path) -> Iterator[LakeServer]:
    folder = tmp_path_factory.mktemp("lake")
    settings = LakeSettings(folder, allow_imports=(f"file://{outside}", "s3://elsewhere"))
    with LakeServer(folder, settings=settings) as started:
        yield started


@pytest.fixture(scope="session")
def api(server: LakeServer) -> Iterator[Api]:
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(auth=auth, timeout=30) as client:
        yield Api(server, client)


@pytest.fixture
def repo(api: Api) -> Repo:
    name = f"repo-{next(_numbers)}"
    body = {"name": name, "storage_namespace": f"local://{name}"}
    reply = api.send("POST", "/repositories", json=body)
    assert reply.status_code == 201, reply.text
    return Repo(api, name, api.server.lake.settings.data_dir / name)


@pytest.fixture
def s3_client() -> Callable[[LakeServer], Any]:
    """Builds a boto3 client with a server's own key."""

    def make(server: LakeServer) -> Any:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id=server.access_key_id,
            aws_secret_access_key=server.secret_access_key,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 1},
                proxies={},
            ),
        )

    return make
