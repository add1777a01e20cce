"""A lakeFS server with small ranges and local files, and a client of its API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep_testing.servers import RealLakeFS

RAGGEDNESS = 12_000
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Server:
    """What the tests ask of the real server. Names of repositories are also those of their namespaces."""

    process: RealLakeFS
    http: httpx.Client
    importable: Path
    raggedness: int = RAGGEDNESS

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """One request; the reply's JSON, if any."""
        reply = self.http.request(method, path, **arguments)
        assert reply.is_success, f"{method} {path}: {reply.status_code} {reply.text}"
        return (
            reply.json() if "json" in reply.headers.get("content-type", "") and reply.text else None
        )

    def make_repository(self, name: str, *, bare: bool = False) -> Path:
        """Create a repository and return the folder of its namespace."""
        self.call(
            "POST",
            "/repositories",
            params={"bare": bare},
            json={"name": name, "storage_namespace": f"local://{name}"},
        )
        folder = self.process.namespace_root / name
        (folder / "_lakefs").mkdir(parents=True, exist_ok=True)
        return folder

    def upload(self, repository: str, path: str, content: bytes, **headers: str) -> None:
        self.call(
            "POST",
            f"/repositories/{repository}/branches/main/objects",
            params={"path": path},
            content=content,
            headers={"content-type": "application/x-test", **headers},
        )

    def commit(self, repository: str, message: str, **body: Any) -> dict[str, Any]:
        """Commit what is staged on main."""
        reply: dict[str, Any] = self.call(
            "POST",
            f"/repositories/{repository}/branches/main/commits",
            json={"message": message, **body},
        )
        return reply

    def list_all(self, path: str) -> list[dict[str, Any]]:
        """All pages of a listing."""
        results: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.call("GET", path, params={"amount": PAGE, "after": after})
            results += page["results"]
            if not page["pagination"]["has_more"]:
                return results
            after = page["pagination"]["next_offset"]

    def import_folder(self, repository: str, folder: Path) -> dict[str, Any]:
        """Import all files of a folder and wait for the commit."""
        url = f"/repositories/{repository}/branches/main/import"
        source = {"type": "common_prefix", "path": f"local://{folder}/", "destination": "many/"}
        started = self.call("POST", url, json={"paths": [source], "commit": {"message": "import"}})
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            status: dict[str, Any] = self.call("GET", url, params={"id": started["id"]})
            if status["completed"]:
                return status
            assert "error" not in status, status
            time.sleep(0.5)
        raise AssertionError("the import did not end")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    importable = tmp_path_factory.mktemp("importable")
    env = {
        "LAKEFS_COMMITTED_PERMANENT_RANGE_RAGGEDNESS_ENTRIES": str(RAGGEDNESS),
        "LAKEFS_BLOCKSTORE_LOCAL_IMPORT_ENABLED": "true",
        "LAKEFS_BLOCKSTORE_LOCAL_ALLOWED_EXTERNAL_PREFIXES": str(importable),
    }
    with RealLakeFS(env=env) as process:
        auth = (process.access_key_id, process.secret_access_key)
        with httpx.Client(
            base_url=process.api_url, auth=auth, timeout=120, trust_env=False
        ) as client:
            yield Server(process, client, importable)
