"""Whoever has shown no credentials gets little: of memory, of time, of connections."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from lakesweep.lake.api.auth import KNOWN_KEY, OPEN_ENDPOINTS
from lakesweep.lake.api.limits import RequestLimits
from lakesweep.lake.server import LakeServer, Serving
from lakesweep.lake.strangers import WaryProtocol, protocol_with
from lakesweep_testing.asgi import AsgiLake, signed_headers

pytestmark = pytest.mark.slow

KIB = 1024


class Body:
    """A body of a mebibyte, and how much of it was asked for."""

    def __init__(self) -> None:
        self.bytes_read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(1024):
            self.bytes_read += KIB
            yield b" " * KIB


@pytest.mark.parametrize(("method", "path"), sorted(OPEN_ENDPOINTS))
def test_open_endpoints_read_four_kibibytes(tmp_path: Path, method: str, path: str) -> None:
    """An announced body is not read at all, one without a length no further than the bound."""
    with AsgiLake(data_dir=tmp_path) as lake:
        body = Body()
        reply = lake.send_raw(method, path, content=body)
        assert body.bytes_read <= 6 * KIB
        assert reply.status_code in (413, 200, 204)
        announced = lake.send_raw(method, path, content=b" " * (4 * KIB + 1))
        assert announced.status_code == 413
        fits = {"access_key_id": "a", "secret_access_key": "b" * (4 * KIB - 60)}
        assert lake.send_raw("POST", "/api/v1/auth/login", json=fits).status_code == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/repositories"),
        ("POST", "/api/v1/repositories/repo/branches/main/objects?path=p"),
        ("PUT", "/api/v1/repositories/repo/branches/main/objects?path=p"),
        ("PUT", "/repo/main/p"),
        ("POST", "/api/v1/no/such/route"),
    ],
)
@pytest.mark.parametrize("authorization", ["", "Basic QTpC", "Bearer a.b.c"])
def test_no_body_is_read_before_credentials_are_known(
    method: str, path: str, authorization: str
) -> None:
    """Refused from the headers alone."""
    with AsgiLake() as lake:
        body = Body()
        headers = {"Authorization": authorization} if authorization else {}
        reply = lake.send_raw(method, path, content=body, headers=headers)
        assert (reply.status_code, body.bytes_read) == (401, 0)


SHORT = RequestLimits(stranger_seconds=0.5, stranger_idle_seconds=0.3, header_seconds=60)
_LOGIN = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n"
_CLOSED = b"POST /api/v1/repositories HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
_HEALTH = b"GET /_health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake"), serving=Serving(limits=SHORT)) as server:
        yield server


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    """A server for clients that show their credentials: a laden machine may hold them up for seconds."""
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.mark.parametrize(
    ("sent", "trickle"),
    [
        (b"", b""),
        (b"GET /_health HTTP/1.1\r\nA: ", b"x"),
        (_LOGIN, b" "),
        (_CLOSED, b" "),
        (_CLOSED, b" " * 65536),
        (_HEALTH, b""),
        (_HEALTH, _HEALTH),
    ],
    ids=["silent", "headers", "open body", "refused body", "flood", "idle", "many requests"],
)
def test_a_strangers_connection_ends_on_time(
    server: LakeServer, sent: bytes, trickle: bytes
) -> None:
    """Whatever it is that comes in, and however steadily."""
    host, port = server.url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        connection.sendall(sent)
        is_over = threading.Event()

        def send_on() -> None:
            try:
                while trickle and not is_over.wait(0.02):
                    connection.sendall(trickle)
            except OSError:
                return

        sender = threading.Thread(target=send_on)
        sender.start()
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass
        finally:
            is_over.set()
            sender.join()


def test_a_known_connection_is_kept(patient: LakeServer) -> None:
    """The bounds are the strangers' alone: the one connection carries many requests, and no timer ends it."""
    auth = (patient.access_key_id, patient.secret_access_key)
    with httpx.Client(base_url=patient.endpoint, auth=auth) as client:
        for _ in range(3):
            assert client.get("/user").status_code == 200
        (known,) = (p for p in _connections(patient) if p._is_known)
        assert known._last_moment is None
        assert known.timeout_keep_alive > known.limits.stranger_idle_seconds
        assert known not in known.strangers


def _connections(server: LakeServer) -> list[WaryProtocol]:
    found: list[Any] = list(server._server.server_state.connections)
    return found


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


async def _no_app(_scope: Any, _receive: Any, _send: Any) -> None:
    """Nothing is asked of it."""


def test_when_strangers_are_many_the_oldest_goes() -> None:
    """A newcomer who will show credentials is not kept out by those who never do."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        protocol = protocol_with(RequestLimits(max_strangers=2))
        config = uvicorn.Config(_no_app, http=protocol, interface="asgi3", log_config=None)
        state = ServerState()
        transports = [FakeTransport() for _ in range(5)]
        connections = [protocol(config, state, {}) for _ in transports]
        for connection, transport in zip(connections[:2], transports, strict=False):
            connection.connection_made(transport)
        connections[0].on_message_begin()
        connections[0].scope["state"][KNOWN_KEY]()
        await asyncio.sleep(0)
        for connection, transport in zip(connections[2:], transports[2:], strict=True):
            connection.connection_made(transport)
        assert [t.is_aborted for t in transports] == [False, True, True, False, False]
        last_moments = [connection._last_moment for connection in connections]
        assert [timer is None for timer in last_moments] == [True, True, True, False, False]
        assert all(t.when() <= loop.time() + 30 for t in last_moments if t is not None)
        for connection in connections:
            connection.connection_lost(ConnectionResetError())
        assert protocol.strangers == {}
        assert protocol_with(RequestLimits()).strangers is not protocol.strangers

    asyncio.run(run())


def test_the_gateway_says_when_the_sender_is_known(patient: LakeServer) -> None:
    """A signed request makes its connection known, whatever it is answered."""
    url = f"{patient.url}/no-such-bucket/main/x"
    headers = signed_headers("GET", url, patient.access_key_id, patient.secret_access_key)
    with httpx.Client() as client:
        assert client.get(url, headers=headers).status_code == 404
        assert any(p._is_known for p in _connections(patient))
