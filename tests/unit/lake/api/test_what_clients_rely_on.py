"""Answers on which clients of lakeFS rely, each as the real server gives it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.memory import MemoryBackend
from lakesweep_testing.asgi import AsgiLake

REPO = "/repositories/repo"
OBJECTS = f"{REPO}/branches/main/objects"
STAT = f"{REPO}/refs/main/objects/stat"


@pytest.fixture(scope="module")
def lake() -> Iterator[AsgiLake]:
    with AsgiLake() as lake:
        lake.create()
        yield lake


def _commit(lake: AsgiLake, message: str) -> str:
    body = {"message": message, "allow_empty": True}
    commit_id: str = lake.send("POST", f"{REPO}/branches/main/commits", json=body).json()["id"]
    return commit_id


def test_branch_and_tag_never_share_a_name(lake: AsgiLake) -> None:
    """Whoever reads a tag would get what the branch has today."""
    commit_id = _commit(lake, "first")

    def made(kind: str, **body: Any) -> int:
        return lake.send("POST", f"{REPO}/{kind}", json=body).status_code

    assert made("tags", id="main", ref="main") == 409
    assert made("tags", id="v1", ref="main") == 201
    assert made("branches", name="v1", source="main") == 409
    assert made("tags", id=commit_id, ref="main") == 409
    assert made("branches", name=commit_id, source="main") == 409
    assert made("branches", name=commit_id[:8], source="main") == 201


def test_log_goes_on_behind_any_reference(lake: AsgiLake) -> None:
    """A short id, a tag, an expression; what does not exist is no end of the log."""
    ids = [_commit(lake, str(number)) for number in range(3)]
    log = f"{REPO}/refs/main/commits"
    for after in (ids[1], ids[1][:12], "main~1"):
        page = lake.send("GET", log, params={"after": after}).json()
        assert [commit["id"] for commit in page["results"]][:1] == ids[:1]
    assert lake.send("GET", log, params={"after": "nothing"}).status_code == 404


def test_metadata_of_headers_is_utf8(lake: AsgiLake) -> None:
    """As curl and clients in Go send it; spaces around it do not count, and Latin-1 is understood, too."""
    headers = [
        ("x-lakefs-meta-owner", "Zoë ☃".encode()),
        ("x-lakefs-meta-city", "Zürich".encode("latin-1")),
        ("x-lakefs-meta-space", b"a  b \t"),
        ("x-lakefs-internal-mtime", b"7"),
        ("x-lakefs-meta-twice", b"1"),
        ("x-lakefs-meta-twice", b"2"),
    ]
    lake.send("POST", f"{OBJECTS}?path=a", content=b"x", headers=headers).raise_for_status()
    assert lake.send("GET", f"{STAT}?path=a").json()["metadata"] == {
        "owner": "Zoë ☃",
        "city": "Zürich",
        "space": "a  b",
        "::lakefs::mtime": "7",
        "twice": "1",
    }


def test_range_of_an_empty_object_tells_its_size(lake: AsgiLake) -> None:
    """The Python client learns from it where the object ends."""
    lake.send("POST", f"{OBJECTS}?path=empty", content=b"").raise_for_status()
    reply = lake.send("GET", f"{REPO}/refs/main/objects?path=empty", headers={"Range": "bytes=0-9"})
    assert (reply.status_code, reply.headers["content-range"]) == (416, "bytes */0")


def test_bucket_that_does_not_exist_is_the_clients_mistake(
    lake: AsgiLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 500 would be tried again, and the name could not be told from an outage."""

    def put(*_: Any, **__: Any) -> None:
        raise ObjectNotFoundError("404 NoSuchBucket", kind="container-not-found")

    monkeypatch.setattr(MemoryBackend, "put", put)
    body = {"name": "typo", "storage_namespace": "mem://no-such-bucket/ns"}
    reply = lake.send("POST", "/repositories", json=body)
    assert reply.status_code == 400
    assert "NoSuchBucket" in reply.json()["message"]
    assert lake.send("GET", "/repositories/typo").status_code == 404
