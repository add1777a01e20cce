"""Keep-alive connections to one S3 host.

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
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.httpsession import URLLib3Session, get_cert_path
from botocore.utils import get_environ_proxies

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.storage.http_wire import Reply, WireConnection

# What a server that closed an idle connection looks like; nothing of the request was answered.
_CLOSED_BY_SERVER = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Connections:
    """Sends requests to `origin`, one at a time on each connection, as many connections as there are callers."""

    def __init__(self, origin: str, options: StorageOptions, ca_bundle: str | None) -> None:
        self._origin = origin
        self._options = options
        self._is_secure = origin.startswith("https://")
        address = urlsplit(origin)
        self._host = address.hostname or ""
        self._port = address.port or (443 if self._is_secure else 80)
        self._named = {"host": address.netloc}
        verify: Any = (
            ca_bundle or True
        )  # A path or a truth; botocore's annotation knows only the latter.
        self._certificates = get_cert_path(verify)
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[WireConnection] = deque()
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
        headers = headers if "host" in headers else self._named | dict(headers)
        connection = self._idle_connection()
        if connection is not None:
            try:
                return self._asked(connection, method, target, headers, body)
            except _CLOSED_BY_SERVER:
                pass  # It had been closed while it was idle; a new one tells what is the matter, if anything.
        return self._asked(self._new_connection(), method, target, headers, body)

    def _asked(
        self,
        connection: WireConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        try:
            reply = connection.exchange(method, target, headers, body)
        except BaseException:
            connection.close()
            raise
        if connection.is_spent:
            connection.close()
        else:
            self._idle.append(connection)
        return reply

    def _idle_connection(self) -> WireConnection | None:
        if self._process != os.getpid():
            # A forked child must not speak on its parent's connections.
            self._idle.clear()
            self._process = os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _new_connection(self) -> WireConnection:
        if self._is_secure and self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._certificates)
        return WireConnection(
            self._host,
            self._port,
            self._tls,
            self._options.connect_timeout_seconds,
            self._options.request_timeout_seconds,
        )


def _close_all(idle: deque[WireConnection]) -> None:
    while idle:
        idle.pop().close()
