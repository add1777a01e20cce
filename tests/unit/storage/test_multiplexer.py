"""Many requests from one thread: each gets its own answer, or None where the server gave no plain one."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest
import trustme

from lakesweep.storage.multiplexer import Connection, Multiplexer

Reply = Callable[[str], bytes | None]  # by the path that was asked for; None hangs up


class ScriptedServer:
    """Answers each request by a script, on connections that stay."""

    def __init__(self, reply: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.reply = reply
        self.connections = 0
        self.latest: socket.socket  # that an answer was sent on
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while line := stream.readline():
                    while stream.readline() not in (b"\r\n", b""):
                        pass
                    answer = self.reply(line.split()[1].decode())
                    if answer is None:
                        return
                    self.latest = connection
                    connection.sendall(answer)
        except OSError:
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(reply: Reply, tls: ssl.SSLContext | None = None) -> ScriptedServer:
        servers.append(ScriptedServer(reply, tls))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def whole(path: str) -> bytes:
    """An answer that names the path it answers."""
    body = path.encode() * 3000
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def ask(
    port: int,
    paths: list[str],
    *,
    most: int = 8,
    tls: ssl.SSLContext | None = None,
    idle: deque[Connection] | None = None,
    request_timeout: float = 10.0,
) -> dict[str, bytes | None]:
    """What comes of requests for these paths."""
    found: dict[str, bytes | None] = {}
    waiting = list(enumerate(paths))
    kept: deque[Connection] = deque() if idle is None else idle
    host = "localhost" if tls else "127.0.0.1"
    with Multiplexer((host, port), tls, 10.0, request_timeout, kept, set()) as many:
        while waiting or many.in_flight:
            while waiting and many.in_flight < most:
                place, path = waiting.pop(0)
                many.send(place, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            for place, answer in many.wait():
                assert paths[place] not in found
                found[paths[place]] = None if answer is None else answer.content
    if idle is None:
        hang_up(kept)
    return found


def hang_up(idle: deque[Connection]) -> None:
    for connection in idle:
        connection.socket.close()


def test_each_request_gets_its_own_answer(serve: Callable[..., ScriptedServer]) -> None:
    """On no more connections than were allowed, which are kept for the next ones."""
    server = serve(whole)
    idle: deque[Connection] = deque()
    paths = [f"/{number}" for number in range(100)]
    for _ in range(2):
        found = ask(server.port, paths, idle=idle)
        assert found == {path: path.encode() * 3000 for path in paths}
    assert server.connections <= 8
    hang_up(idle)


def test_answers_come_over_tls_too(serve: Callable[..., ScriptedServer]) -> None:
    """Also those of which one record of TLS holds the rest, and only where the certificate is good."""
    authority = trustme.CA()
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(of_server)
    server = serve(whole, of_server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    paths = [f"/{number}" for number in range(40)]
    assert ask(server.port, paths, tls=trusting) == {p: p.encode() * 3000 for p in paths}
    strangers = ssl.create_default_context()
    assert ask(server.port, ["/a", "/b"], tls=strangers) == {"/a": None, "/b": None}


@pytest.mark.parametrize(
    "broken",
    [
        None,
        b"",
        whole("/bad")[:-1],
        whole("/bad") + b"x",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"junk\r\n\r\n",
    ],
)
def test_a_broken_answer_is_none_and_harms_no_other(
    serve: Callable[..., ScriptedServer], broken: bytes | None
) -> None:
    """The other requests get theirs, whatever becomes of this one's connection."""
    server = serve(lambda path: broken if path == "/bad" else whole(path))
    paths = [
        *(f"/{number}" for number in range(10)),
        "/bad",
        *(f"/{number}" for number in range(10, 30)),
    ]
    found = ask(server.port, paths, most=3, request_timeout=1.5)
    assert found.pop("/bad") is None
    assert found == {path: path.encode() * 3000 for path in paths if path != "/bad"}


@pytest.mark.timeout(20)
def test_a_server_that_says_nothing_is_given_up(serve: Callable[..., ScriptedServer]) -> None:
    """After the time that one request may take without a byte."""
    server = serve(lambda path: b"")
    assert ask(server.port, ["/a", "/b"], request_timeout=0.5) == {"/a": None, "/b": None}


def test_nobody_there_is_none(serve: Callable[..., ScriptedServer]) -> None:
    """A refused connection is told as no answer, at once."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = int(unused.getsockname()[1])
    assert ask(port, ["/a", "/b", "/c"]) == {"/a": None, "/b": None, "/c": None}


def test_another_address_of_the_host_is_tried(
    serve: Callable[..., ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody answers at the first one; the next to connect begins with the one that answered."""
    server = serve(whole)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = ("127.0.0.1", int(unused.getsockname()[1]))
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", a) for a in (nobody, ("127.0.0.1", server.port))
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    unreachable: set[object] = set()
    paths = [f"/{number}" for number in range(20)]
    for most_lost in (1, 0):
        idle: deque[Connection] = deque()
        answers: list[object] = []
        with Multiplexer(("host", 1), None, 10.0, 10.0, idle, unreachable) as many:
            for place, path in enumerate(paths):
                many.send(place, f"GET {path} HTTP/1.1\r\n\r\n".encode())
                answers += [answer for _, answer in many.wait()]
        assert len(answers) == len(paths)
        assert answers.count(None) == most_lost
        assert unreachable == {nobody}
        hang_up(idle)


def test_a_connection_ends_with_the_answer_that_says_so(
    serve: Callable[..., ScriptedServer],
) -> None:
    """The next request goes on another one."""
    server = serve(
        lambda path: whole(path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    )
    paths = [f"/{number}" for number in range(5)]
    assert None not in ask(server.port, paths, most=1).values()
    assert server.connections == len(paths)


def test_an_idle_connection_that_the_server_ended_is_no_answer(
    serve: Callable[..., ScriptedServer],
) -> None:
    """Its request is asked again by the caller, as no byte of an answer came."""
    answered: list[str] = []

    def once(path: str) -> bytes | None:
        answered.append(path)
        return whole(path) if len(answered) == 1 else None

    server = serve(once)
    idle: deque[Connection] = deque()
    assert ask(server.port, ["/a"], idle=idle)["/a"]
    assert len(idle) == 1
    assert ask(server.port, ["/b"], idle=idle) == {"/b": None}
    assert not idle


def test_bytes_that_nobody_asked_for_end_a_connection(serve: Callable[..., ScriptedServer]) -> None:
    """They would be taken for the answer to the next request."""
    arrived = threading.Event()

    def answers(path: str) -> bytes:
        if path == "/slow":
            arrived.wait(5)
        return whole(path)

    server = serve(answers)
    idle: deque[Connection] = deque()
    with Multiplexer(("127.0.0.1", server.port), None, 10.0, 10.0, idle, set()) as many:
        for place, path in enumerate(("/slow", "/first")):
            many.send(place, f"GET {path} HTTP/1.1\r\n\r\n".encode())
        assert [place for place, _ in many.wait()] == [1]
        server.latest.sendall(whole("/stale"))
        time.sleep(0.2)
        arrived.set()
        assert [place for place, _ in many.wait()] == [0]
        many.send(2, b"GET /next HTTP/1.1\r\n\r\n")
        [(_, answer)] = many.wait()
        assert answer is None or answer.content == b"/next" * 3000
    assert len(idle) == 1
    hang_up(idle)
