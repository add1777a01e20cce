"""Keep-alive connections to one S3 host, on the standard library's HTTP client.

botocore's own connections do more for every request than a page of a listing costs to read; they are used only where
the environment names a proxy.
"""

from __future__ import annotations

import http.client
import os
import ssl
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.httpsession import URLLib3Session, get_cert_path
from botocore.utils import get_environ_proxies

from lakesweep.storage.options import StorageOptions

_MOST_HEADERS = 200
_LONGEST_LINE = 65536
_WITHOUT_BODY = (http.client.NO_CONTENT, http.client.NOT_MODIFIED)
# What a server that closed an idle connection looks like; nothing of the request was answered.
_CLOSED_BY_SERVER = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


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


class _QuickResponse(http.client.HTTPResponse):
    """An answer whose headers are read line by line.

    The standard library reads them with its parser of e-mail, which takes longer than all else that a small request
    costs us. Bodies are read by the standard library.
    """

    def begin(self) -> None:
        """Read the status and the headers, and find out where the body ends."""
        while True:
            version, status, reason = self._read_status()  # type: ignore[attr-defined]
            headers = _read_headers(self.fp)
            if status != http.client.CONTINUE:
                break
        if not version.startswith("HTTP/1."):
            raise http.client.UnknownProtocol(version)
        self.code = self.status = status
        self.reason = reason.strip()
        self.version = 10 if version == "HTTP/1.0" else 11
        self.headers = self.msg = cast(Any, headers)
        self.chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        length = headers.get("content-length", "")
        self.length = int(length) if length.isdecimal() and not self.chunked else None
        if status in _WITHOUT_BODY or self._method == "HEAD":  # type: ignore[attr-defined]
            self.length = 0
        # A body without an end of its own ends with the connection.
        self.will_close = self._check_close() or not (self.chunked or self.length is not None)  # type: ignore[attr-defined]


def _read_headers(stream: BinaryIO) -> _Headers:
    headers = _Headers()
    for _ in range(_MOST_HEADERS):
        line = stream.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise http.client.LineTooLong("header line")
        if line in (b"\r\n", b"\n"):
            return headers
        if not line.endswith(b"\n"):
            raise http.client.IncompleteRead(line)  # the length may be among what is missing
        name, _, value = line.decode("latin-1").partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raise http.client.HTTPException(f"got more than {_MOST_HEADERS} headers")


class Connections:
    """Sends requests to `origin`, one at a time on each connection, as many connections as there are callers."""

    def __init__(self, origin: str, options: StorageOptions, ca_bundle: str | None) -> None:
        self._origin = origin
        self._options = options
        self._is_secure = origin.startswith("https://")
        self._host = urlsplit(origin).netloc
        verify: Any = (
            ca_bundle or True
        )  # A path or a truth; botocore's annotation knows only the latter.
        self._certificates = get_cert_path(verify)
        self._context: ssl.SSLContext | None = None
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._process = os.getpid()
        proxies = get_environ_proxies(origin)
        self._by_proxy: Any = None
        if proxies:
            self._by_proxy = URLLib3Session(
                verify=verify,
                proxies=proxies,
                timeout=(options.connect_timeout_seconds, options.request_timeout_seconds),  # type: ignore[arg-type]
                max_pool_connections=options.max_requests_in_flight,
            )
        weakref.finalize(self, _close_all, self._idle)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer to one request; raises the errors of `http.client`, the operating system and botocore."""
        if self._by_proxy is not None:
            # botocore's connections want its own kind of headers, whatever their annotation says.
            own: Any = HeadersDict(headers)
            request = AWSPreparedRequest(method, self._origin + target, own, body, False)
            response = self._by_proxy.send(request)
            return Reply(response.status_code, response.headers, response.content)
        connection = self._idle_connection()
        if connection is not None:
            try:
                return self._asked(connection, method, target, headers, body)
            except _CLOSED_BY_SERVER:
                pass  # It had been closed while it was idle; a new one tells what is the matter, if anything.
        return self._asked(self._new_connection(), method, target, headers, body)

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return Reply(response.status, cast(_Headers, response.headers), content)

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        if self._process != os.getpid():
            # A forked child must not speak on its parent's connections.
            self._idle.clear()
            self._process = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _new_connection(self) -> http.client.HTTPConnection:
        connect_timeout = self._options.connect_timeout_seconds
        connection: http.client.HTTPConnection
        if self._is_secure:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._certificates)
            connection = http.client.HTTPSConnection(
                self._host, timeout=connect_timeout, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(self._host, timeout=connect_timeout)
        connection.response_class = _QuickResponse
        connection.connect()
        connection.sock.settimeout(self._options.request_timeout_seconds)
        return connection


def _close_all(idle: deque[http.client.HTTPConnection]) -> None:
    while idle:
        idle.pop().close()
