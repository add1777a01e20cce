"""A proxy between a client and a server that speak HTTP/1.1: it delays answers, cuts them, or changes their bytes.

with TcpProxy(server.port, spoil=cut_bodies("_lakefs/")) as proxy:
    StorageOptions(s3_endpoint=f"http://127.0.0.1:{proxy.port}", …)
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

__all__ = [
    "CUT",
    "SERVER_SPOILS",
    "Spoil",
    "TcpProxy",
    "corrupted",
    "cut",
    "delayed",
    "refused",
    "unauthorized",
]

# Given a request's head (first line and headers) and a piece of the answer, what to send instead; `CUT` ends the
# connection.
Spoil = Callable[[str, bytes], bytes]
CUT = b""
_PIECE = 1 << 16


class TcpProxy:
    """Passes everything on, answers by way of `spoil`, which may be set at any time. `spoiled` counts changed pieces."""

    def __init__(self, port: int, spoil: Spoil = lambda request, piece: piece) -> None:
        self._server_port = port
        self.spoil = spoil
        self.spoiled = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        # A thread that waits in `accept` is woken by shutting down, not by closing.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            _end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._server_port), timeout=60)
        except OSError:
            _end(client)
            return
        self._open |= {client, server}
        request = [""]  # the one under way
        pump = threading.Thread(target=self._pass_on, args=(client, server, request), daemon=True)
        pump.start()
        self._answer(client, server, request)
        for one in (client, server):
            _end(one)
            self._open.discard(one)

    def _pass_on(self, client: socket.socket, server: socket.socket, request: list[str]) -> None:
        with suppress(OSError):
            while piece := client.recv(_PIECE):
                if piece.split(b"\r\n", 1)[0].endswith(b" HTTP/1.1"):
                    request[0] = piece.split(b"\r\n\r\n", 1)[0].decode("latin-1")
                server.sendall(piece)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, client: socket.socket, server: socket.socket, request: list[str]) -> None:
        with suppress(OSError):
            while piece := server.recv(_PIECE):
                said = self.spoil(request[0], piece)
                self.spoiled += said != piece
                if not said:
                    return
                client.sendall(said)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def delayed(seconds: float) -> Spoil:
    """Every piece comes late."""

    def spoil(request: str, piece: bytes) -> bytes:
        time.sleep(seconds)
        return piece

    return spoil


def cut(every: int) -> Spoil:
    """Instead of every n-th piece the connection ends; counted over all connections."""
    pieces = 0

    def spoil(request: str, piece: bytes) -> bytes:
        nonlocal pieces
        pieces += 1
        return piece if pieces % every else CUT

    return spoil


def corrupted(path: str) -> Spoil:
    """A byte in the middle of the body is another one, in answers to GET requests with this in their first line."""

    def spoil(request: str, piece: bytes) -> bytes:
        head, found, body = piece.rpartition(b"\r\n\r\n")
        line = request.split("\r\n", 1)[0]
        if not line.startswith("GET ") or path not in line or not body:
            return piece
        middle = len(body) // 2
        return head + found + body[:middle] + bytes([body[middle] ^ 0xFF]) + body[middle + 1 :]

    return spoil


def refused(code: str, after: int) -> Spoil:
    """After so many answers, a store's 403 with a code in its body, and the end of the connection."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>"
    return _answered("403 Forbidden", "application/xml", body, after)


def unauthorized(after: int) -> Spoil:
    """After so many answers, a catalog server's 401, and the end of the connection."""
    return _answered("401 Unauthorized", "application/json", '{"message": "injected"}', after)


def _answered(status: str, kind: str, body: str, after: int) -> Spoil:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    answers = 0

    def spoil(request: str, piece: bytes) -> bytes:
        nonlocal answers
        answers += 1
        return piece if answers <= after else (head + body).encode()

    return spoil


SERVER_SPOILS: Mapping[str, Callable[[], Spoil]] = {
    "delays": lambda: delayed(0.02),
    "cuts": lambda: cut(every=7),
    "corrupts": lambda: corrupted("/api/v"),
    "lets credentials run out": lambda: unauthorized(after=8),
    "refuses from the start": lambda: unauthorized(after=0),
}
"""What a network, or the end of a key, makes of the answers of a catalog server, by name."""
