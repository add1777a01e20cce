"""Import of outside objects over REST."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest


def start(repo, source: str, kind: str = "common_prefix", destination: str = "in/") -> Any:
    paths = [{"type": kind, "path": source, "destination": destination}]
    body = {"paths": paths, "commit": {"message": "import", "metadata": {"k": "v"}}}
    return repo.send("POST", "/branches/main/import", json=body)


def finished(repo, import_id: str) -> Any:
    for _ in range(5000):
        status = repo.ok("GET", "/branches/main/import", params={"id": import_id})
        if status["completed"]:
            return status
        time.sleep(0.02)
    raise AssertionError("the import did not end")


def test_prefix_is_imported_as_one_commit(repo, outside: Path) -> None:
    """Objects stay where they are and read through the branch."""
    (outside / "in" / "deep").mkdir(parents=True)
    (outside / "in" / "one").write_bytes(b"1")
    (outside / "in" / "deep" / "two").write_bytes(b"22")
    reply = start(repo, f"local://{outside}/in/")
    assert reply.status_code == 202
    status = finished(repo, reply.json()["id"])
    assert status["ingested_objects"] == 2
    assert status["commit"]["message"] == "import"
    assert status["commit"]["id"] == repo.ok("GET", "/branches/main")["commit_id"]
    assert repo.paths() == ["in/deep/two", "in/one"]
    assert repo.get("in/deep/two").content == b"22"
    cancelled = repo.send("DELETE", "/branches/main/import", params={"id": reply.json()["id"]})
    assert cancelled.status_code == 409


def test_other_local_files_are_not_served(repo, outside: Path) -> None:
    """An access key to the lake is no key to the machine: not by import, not by a link out of the folder."""
    secret = repo.api.server.lake.settings.data_dir / "refs.db"
    assert secret.exists()
    (outside / "link").symlink_to(secret)
    for address in ("local:///etc/passwd", f"local://{secret}", f"local://{outside}/link"):
        body = {"physical_address": address, "checksum": "c", "size_bytes": 1}
        staged = repo.send("PUT", "/branches/main/objects", params={"path": "s"}, json=body)
        assert staged.status_code in (400, 403), address
        assert start(repo, address, "object", "s").status_code in (400, 403), address
    assert repo.paths() == []


@pytest.mark.parametrize("source", ["local://{repo}/", "local://{repo}/data/", "local://", "junk"])
def test_own_namespace_is_no_source(repo, source: str) -> None:
    """Nor is a prefix around it, nor what is no address."""
    assert start(repo, source.format(repo=repo.name)).status_code == 400


def test_unknown_import(repo) -> None:
    """404 to ask, 404 to cancel; an import without paths is refused."""
    assert repo.send("GET", "/branches/main/import", params={"id": "x"}).status_code == 404
    assert repo.send("DELETE", "/branches/main/import", params={"id": "x"}).status_code == 404
    empty = {"paths": [], "commit": {"message": "m"}}
    assert repo.send("POST", "/branches/main/import", json=empty).status_code == 400
