"""Connections of our own: kept, renewed when the server drops them, and strict about whole answers."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from lakesweep.storage import StorageOptions
from lakesweep.storage.s3.http import Connections

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Name: v\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"


class OneShotServer:
    """Gives each connection one answer, then hangs up without saying so."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answer = WHOLE
        self.connections = 0
        self.received = b""
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.url = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.connections += 1
                if self._tls is None:
                    self._answer_on(connection)
                    continue
                try:
                    with self._tls.wrap_socket(connection, server_side=True) as secured:
                        self._answer_on(secured)
                except OSError:
                    continue  # the client did not like the certificate

    def _answer_on(self, connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            more = connection.recv(65536)
            if not more:
                return  # hung up before a request was made
            received += more
        self.received = received
        connection.sendall(self.answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[OneShotServer]:
    server = OneShotServer()
    yield server
    server.close()


@pytest.fixture
def connections(server: OneShotServer, monkeypatch: pytest.MonkeyPatch) -> Connections:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Connections(server.url, StorageOptions(request_timeout_seconds=5), None)


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED])
def test_whole_answers_are_read(
    server: OneShotServer, connections: Connections, answer: bytes
) -> None:
    """With a length or in chunks."""
    server.answer = answer
    assert connections.send("GET", "/", {}, b"").content == b"ok"


@pytest.mark.parametrize(
    ("answer", "status", "content"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, b""),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + WHOLE, 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n", 503, b""),
    ],
)
def test_answers_end_where_http_says(
    server: OneShotServer, connections: Connections, answer: bytes, status: int, content: bytes
) -> None:
    """By their status, their length, their chunks, or the end of the connection."""
    server.answer = answer
    reply = connections.send("GET", "/", {}, b"")
    assert (reply.status, reply.content) == (status, content)


def test_the_answer_to_a_head_has_no_body(server: OneShotServer, connections: Connections) -> None:
    """Its length is that of the object."""
    server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
    reply = connections.send("HEAD", "/", {}, b"")
    assert (reply.content, reply.headers.get("Content-Length")) == (b"", "99")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: v\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 201 + b"\r\n",
    ],
)
def test_nonsense_is_an_error_of_http(
    server: OneShotServer, connections: Connections, answer: bytes
) -> None:
    """Which is translated, and tried again, as for any broken connection."""
    server.answer = answer
    with pytest.raises(http.client.HTTPException):
        connections.send("GET", "/", {}, b"")


def test_headers_are_found_in_any_case(connections: Connections) -> None:
    """As HTTP wants it."""
    assert connections.send("GET", "/", {}, b"").headers.get("x-nAME") == "v"


def test_a_connection_that_the_server_dropped_is_replaced(
    server: OneShotServer, connections: Connections
) -> None:
    """An idle connection may be gone; the request is not lost by it."""
    for _ in range(5):
        assert connections.send("GET", "/", {}, b"").status == 200
    assert server.connections == 5


def test_half_an_answer_is_an_error(server: OneShotServer, connections: Connections) -> None:
    """Fewer bytes than promised are never taken for all."""
    server.answer = SHORT
    with pytest.raises(http.client.IncompleteRead):
        connections.send("GET", "/", {}, b"")


def test_a_proxy_in_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, server: OneShotServer
) -> None:
    """The request goes to the proxy, for a host that nobody could reach."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    connections = Connections("http://bucket.nowhere.invalid", StorageOptions(), None)
    assert connections.send("GET", "/", {}, b"").content == b"ok"


def test_every_request_names_the_host(server: OneShotServer, connections: Connections) -> None:
    """Also one that nobody signed."""
    connections.send("HEAD", "/lake", {}, b"")
    host = server.url.partition("://")[2]
    assert server.received.startswith(b"HEAD /lake HTTP/1.1\r\n")
    assert f"\r\nhost: {host}\r\n".encode() in server.received


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb"])
def test_no_header_breaks_into_the_next_line(
    server: OneShotServer, connections: Connections, value: str
) -> None:
    """Whatever a session token from a file holds, it is one header."""
    with pytest.raises(ValueError, match="line break"):
        connections.send("GET", "/", {"x-amz-security-token": value}, b"")
    assert server.received == b""


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED[:-2],
        CHUNKED[:-9],
        CHUNKED.replace(b"1\r\nk", b"9\r\nk"),
        CHUNKED.replace(b"1\r\nk", b"one\r\nk"),
        CHUNKED.replace(b"1\r\nk", b"-1\r\nk"),
        CHUNKED.replace(b"1\r\nk", b"0x1\r\nk"),
        CHUNKED.replace(b"1\r\nk", b"\r\nk"),
        CHUNKED.replace(b"k\r\n", b"kk\r\n"),
    ],
)
def test_half_an_answer_in_chunks_is_an_error(
    server: OneShotServer, connections: Connections, answer: bytes
) -> None:
    """Wherever it is cut off or spoilt."""
    server.answer = answer
    with pytest.raises(http.client.HTTPException):
        connections.send("GET", "/", {}, b"")


class Tls:
    """A server with a certificate for localhost, and the authority that vouches for it."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(context)
        self.server = OneShotServer(context)
        self.bundle = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.bundle)


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Tls]:
    tls = Tls(tmp_path)
    yield tls
    tls.server.close()


def test_tls_with_an_authority_of_ones_own(tls: Tls) -> None:
    """The way to MinIO inside a company."""
    connections = Connections(tls.server.url, StorageOptions(request_timeout_seconds=5), tls.bundle)
    assert connections.send("GET", "/", {}, b"").content == b"ok"


def test_a_certificate_that_nobody_vouches_for_is_refused(tls: Tls) -> None:
    """Before the request is sent."""
    connections = Connections(tls.server.url, StorageOptions(request_timeout_seconds=5), None)
    with pytest.raises(ssl.SSLCertVerificationError):
        connections.send("GET", "/", {}, b"")
    assert tls.server.received == b""


def test_a_certificate_of_another_host_is_refused(tls: Tls) -> None:
    """Though the authority is known."""
    url = tls.server.url.replace("localhost", "127.0.0.1")
    connections = Connections(url, StorageOptions(request_timeout_seconds=5), tls.bundle)
    with pytest.raises(ssl.SSLCertVerificationError):
        connections.send("GET", "/", {}, b"")
    assert tls.server.received == b""
