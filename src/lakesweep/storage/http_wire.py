"""One HTTP/1.1 connection: a request goes out, a whole answer comes in.

A small request costs the standard library's client more than signing it and reading its answer together, and copies and
look-ups are millions of small requests. Its errors are raised here too, so that nobody has to know the difference.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_HEADERS = 200
_LONGEST_LINE = 65536
_WITHOUT_BODY = (http.client.NO_CONTENT, http.client.NOT_MODIFIED)
_PROTOCOLS = (b"HTTP/1.1", b"HTTP/1.0")
_BLANK_LINES = (b"\r\n", b"\n")
_AS_IT_IS = {"accept-encoding": "identity"}  # unless a caller can read more
_HEXADECIMAL = b"0123456789abcdefABCDEF"


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]  # names are found in any case
    content: bytes


class _Headers(dict[str, str]):
    """Headers by their names in lower case, asked for in any case."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


class WireConnection:
    """A connection for one request at a time. After an error, or once it `is_spent`, it is good for closing only."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        connect_timeout: float,
        request_timeout: float,
    ) -> None:
        connected = socket.create_connection((host, port), connect_timeout)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = tls.wrap_socket(connected, server_hostname=host) if tls else connected
        except BaseException:
            connected.close()
            raise
        self._socket.settimeout(request_timeout)
        self._stream = self._socket.makefile("rb")
        self.is_spent = False
        self.idle_since = 0.0

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer to a request; `headers` are all that it has, but for those that tell of the body."""
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in (_AS_IT_IS | dict(headers)).items()]
        if body or method in ("PUT", "POST"):
            lines.append(f"content-length: {len(body)}")
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        if not len(lines) + 1 == head.count(b"\n") == head.count(b"\r"):
            raise ValueError("a line break inside the head of a request")
        self._socket.sendall(head + body)
        return self._answer(method)

    def _answer(self, method: str) -> Reply:
        status, headers = self._head()
        while status < http.client.OK and status != http.client.SWITCHING_PROTOCOLS:
            status, headers = self._head()  # "go on" and the like
        if status in _WITHOUT_BODY or method == "HEAD":
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return Reply(status, headers, self._chunks())
        length = headers.get("content-length", "")
        if length.isdecimal():
            return Reply(status, headers, self._exactly(int(length)))
        # A body without an end of its own ends with the connection.
        self.is_spent = True
        return Reply(status, headers, self._stream.read())

    def _head(self) -> tuple[int, _Headers]:
        first = self._line()
        if not first:
            raise http.client.RemoteDisconnected("the server hung up without an answer")
        protocol, _, rest = first.partition(b" ")
        code = rest[:3]
        if protocol not in _PROTOCOLS or not code.isdigit() or rest[3:4].strip():
            raise http.client.BadStatusLine(first[:100].decode("latin-1"))
        headers = self._headers()
        connection = headers.get("connection", "").lower()
        if "close" in connection or (protocol == b"HTTP/1.0" and "keep-alive" not in connection):
            self.is_spent = True
        return int(code), headers

    def _headers(self) -> _Headers:
        headers = _Headers()
        for _ in range(_MOST_HEADERS):
            line = self._line()
            if line in _BLANK_LINES:
                return headers
            if not line.endswith(b"\n"):
                raise http.client.IncompleteRead(line)  # the length may be among what is missing
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        raise http.client.HTTPException(f"got more than {_MOST_HEADERS} headers")

    def _line(self) -> bytes:
        line = self._stream.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise http.client.LineTooLong("header line")
        return line

    def _chunks(self) -> bytes:
        chunks: list[bytes] = []
        while True:
            size = self._line().partition(b";")[0].strip()
            if not size or size.strip(_HEXADECIMAL):
                raise http.client.IncompleteRead(b"".join(chunks))
            length = int(size, 16)
            if not length:
                self._headers()  # what may follow the last chunk
                return b"".join(chunks)
            chunks.append(self._exactly(length))
            if self._line() not in _BLANK_LINES:
                raise http.client.IncompleteRead(b"".join(chunks))

    def _exactly(self, length: int) -> bytes:
        content = self._stream.read(length)
        if len(content) < length:
            raise http.client.IncompleteRead(content, length - len(content))
        return content
