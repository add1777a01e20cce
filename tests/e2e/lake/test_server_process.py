"""The server itself: bounds on a live socket, first start, second start, `lakesweep serve`, the way it stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.api.limits import RequestLimits
from lakesweep.lake.server import LakeServer, Serving, bind
from lakesweep_testing.few_of_many import few_of

SMALL = RequestLimits(max_document_bytes=2000, max_object_bytes=100_000)
IMPATIENT = RequestLimits(header_seconds=0.5, silence_seconds=0.5, document_seconds=1)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[LakeServer]:
    with LakeServer(data_dir=tmp_path, serving=Serving(limits=SMALL)) as server:
        yield server


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[LakeServer]:
    with LakeServer(data_dir=tmp_path, serving=Serving(limits=IMPATIENT)) as server:
        yield server


def test_oversized_bodies_are_refused_and_the_server_goes_on(small: LakeServer) -> None:
    """413 for a document and for an object, announced or not; nothing is stored."""
    auth = (small.access_key_id, small.secret_access_key)
    with httpx.Client(base_url=small.endpoint, auth=auth) as client:
        body = {"name": "repo", "storage_namespace": "local://repo"}
        assert client.post("/repositories", json=body).status_code == 201
        assert client.post("/repositories", json=body | {"x": "y" * 3000}).status_code == 413
        upload = "/repositories/repo/branches/main/objects?path=a"
        assert client.post(upload, content=b"x" * 100_001).status_code == 413
        pieces = (b"x" * 10_000 for _ in range(20))
        assert client.post(upload, content=pieces).status_code == 413
        assert client.get("/repositories/repo/refs/main/objects/ls").json()["results"] == []
        assert client.post(upload, content=b"x" * 100_000).status_code == 201


def test_sender_that_falls_silent_is_answered(impatient: LakeServer) -> None:
    """A half-sent body does not hold the connection for ever."""
    host, port = impatient.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"access'
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


_REQUEST = b"GET /_health HTTP/1.1\r\nHost: x\r\n\r\n"


def _is_answered(connection: socket.socket) -> bool:
    connection.sendall(_REQUEST)
    reply = b""
    while not reply.endswith(b"alive"):
        received = connection.recv(1000)
        if not received:
            return False
        reply += received
    return True


@pytest.mark.parametrize("is_used", [False, True], ids=["new connection", "used connection"])
@pytest.mark.parametrize("sent", [b"G", _REQUEST[:-3]], ids=["a letter", "half a header"])
def test_unfinished_headers_do_not_hold_a_connection(
    impatient: LakeServer, sent: bytes, is_used: bool
) -> None:
    """Whoever begins to ask and never finishes is hung up on."""
    host, port = impatient.url.removeprefix("http://").split(":")
    while True:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            if is_used and not _is_answered(connection):
                continue  # this machine was so slow that the server hung up before
            connection.sendall(sent)
            assert connection.recv(1000) == b""
            break


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /_health HTTP/1.1\r\nHost: x\r\nX-Long: ",
        b"GET /_health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
        b"GET /_health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;extension=",
    ],
    ids=["header", "trailer", "chunk extension"],
)
def test_what_is_no_body_has_an_end(small: LakeServer, sent: bytes) -> None:
    """Headers, trailers and extensions of chunks can't fill the memory: the connection ends at 64 KiB of them."""
    host, port = small.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(sent)
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(b"x" * 64 * 1024 * 1024)


def test_second_start_finds_the_same_lake(tmp_path: Path) -> None:
    """Repositories and credentials outlive the process; a forgotten secret can't be had again."""
    with LakeServer(data_dir=tmp_path) as first:
        auth = (first.access_key_id, first.secret_access_key)
        body = {"name": "kept", "storage_namespace": "local://kept"}
        assert httpx.post(f"{first.endpoint}/repositories", json=body, auth=auth).status_code == 201
    with pytest.raises(ConfigError):
        LakeServer(data_dir=tmp_path)
    with LakeServer(data_dir=tmp_path, access_key_id=auth[0], secret_access_key=auth[1]) as second:
        assert httpx.get(f"{second.endpoint}/repositories/kept", auth=auth).status_code == 200


def test_replies_are_not_held_back() -> None:
    """asyncio sends small pieces at once only on sockets that name their protocol."""
    with bind("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_port_in_use_is_a_clear_error(impatient: LakeServer, tmp_path: Path) -> None:
    """And the lake that could not listen is closed again."""
    port = int(impatient.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match=str(port)):
        LakeServer(data_dir=tmp_path / "other", port=port)


def _serve(data: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "lakesweep"),
            *("serve", "--data", str(data), "--port", "0"),
        ],
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _read_lines(process: subprocess.Popen[str], count: int) -> str:
    assert process.stdout is not None
    return "".join(process.stdout.readline() for _ in range(count))


@pytest.mark.parametrize("stop", few_of([signal.SIGTERM, signal.SIGINT], 2))
def test_serve_prints_what_a_user_needs_and_stops_when_told(
    tmp_path: Path, stop: signal.Signals
) -> None:
    """Endpoint and, the first time only, credentials; exit status 0 on a signal."""
    process = _serve(tmp_path / "lake")
    try:
        said = _read_lines(process, 3)
        url = re.search(r"http://\S+", said)
        key = re.search(r"access key id\s+(\S+)", said)
        secret = re.search(r"secret access key\s+(\S+)", said)
        assert url, said
        assert key, said
        assert secret, said
        reply = httpx.get(f"{url[0]}/api/v1/user", auth=(key[1], secret[1]))
        assert reply.json()["user"]["id"] == "admin"
    finally:
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert (tmp_path / "lake").stat().st_mode & 0o077 == 0

    again = _serve(tmp_path / "lake")
    try:
        assert "http://" in _read_lines(again, 1)
    finally:
        again.send_signal(stop)
        rest, _ = again.communicate(timeout=60)
    assert "secret" not in rest


@pytest.mark.search
def test_serve_takes_its_first_key_from_the_environment(tmp_path: Path) -> None:
    """And then never prints the secret."""
    keys = {
        "LAKESWEEP_SERVE_ACCESS_KEY_ID": "AKIAFROMENV",
        "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": "from-env-secret",
    }
    process = _serve(tmp_path / "lake", **keys)
    try:
        said = _read_lines(process, 2)
        url = re.search(r"http://\S+", said)
        assert url
        auth = ("AKIAFROMENV", "from-env-secret")
        assert httpx.get(f"{url[0]}/api/v1/user", auth=auth).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert "from-env-secret" not in said + rest
