"""Clients that send or read as slowly as they can keep nobody else waiting."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from lakesweep.lake.server import LakeServer
from lakesweep.storage.s3.sign import SigningKey, signed_headers

TRICKLING = 80
MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LakeServer]:
    with LakeServer(data_dir=tmp_path) as served:
        place = {"name": "repo", "storage_namespace": "local://repo"}
        auth = (served.access_key_id, served.secret_access_key)
        reply = httpx.post(f"{served.endpoint}/repositories", json=place, auth=auth)
        assert reply.status_code == 201
        yield served


def _s3(server: LakeServer, method: str, key: str, length: int) -> tuple[str, bytes]:
    host = server.url.removeprefix("http://")
    path = f"/repo/main/{key}"
    signer = SigningKey(server.access_key_id, server.secret_access_key, None)
    now = datetime.now(UTC)
    # Signed over a body that is never sent whole; the head is right.
    headers = signed_headers(signer, "us-east-1", now, method, host, path, "", {}, b"x" * length)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return host, "\r\n".join([*lines, f"content-length: {length}", "", ""]).encode()


def test_trickling_uploads_stop_nobody(server: LakeServer) -> None:
    """More half-sent uploads than there are threads, and reads, lists and other uploads go on."""
    with ExitStack() as open_ones:
        for number in range(TRICKLING):
            host, head = _s3(server, "PUT", f"slow{number}", 2 * MIB)
            name, port = host.split(":")
            connection = socket.create_connection((name, int(port)), timeout=30)
            open_ones.enter_context(connection)
            connection.sendall(head + b"x" * 1000)
        with httpx.Client(base_url=server.url, timeout=30) as client:
            for method, key, body in (
                ("PUT", "quick", b"quick"),
                ("GET", "quick", b""),
                ("PUT", "long", b"y" * (3 * MIB)),
                ("GET", "long", b""),
            ):
                signer = SigningKey(server.access_key_id, server.secret_access_key, None)
                path = f"/repo/main/{key}"
                headers = signed_headers(
                    signer, "us-east-1", datetime.now(UTC), method, host, path, "", {}, body
                )
                reply = client.request(method, path, headers=headers, content=body)
                assert reply.status_code == 200, (method, key)
        auth = (server.access_key_id, server.secret_access_key)
        listed = httpx.get(
            f"{server.endpoint}/repositories/repo/refs/main/objects/ls", auth=auth, timeout=30
        )
        assert [found["path"] for found in listed.json()["results"]] == ["long", "quick"]
