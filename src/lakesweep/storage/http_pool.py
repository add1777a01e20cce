"""Keep-alive connections to one host, as many as there are callers at a time."""

from __future__ import annotations

import http.client
import os
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from lakesweep.storage.http_wire import Reply, WireConnection
from lakesweep.storage.multiplexer import LONGEST_IDLE_SECONDS, Connection, Multiplexer

# What a server that closed an idle connection looks like; nothing of the request was answered.
_CLOSED_BY_SERVER = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class WirePool:
    """Sends requests to one host, one at a time on each connection. Safe for many threads."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: Callable[[], ssl.SSLContext] | None,
        connect_timeout: float,
        request_timeout: float,
    ) -> None:
        self._address = host, port
        self._timeouts = connect_timeout, request_timeout
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._idle: deque[WireConnection] = deque()
        self._idle_multiplexed: deque[Connection] = deque()
        self._unreachable: set[Any] = set()
        self._process = os.getpid()
        weakref.finalize(self, _close_all, self._idle, self._idle_multiplexed)

    def close(self) -> None:
        """Hang up on connections that nobody uses."""
        _close_all(self._idle, self._idle_multiplexed)

    def multiplexer(self) -> Multiplexer:
        """Many requests in flight from one thread, on connections of their own."""
        self._forget_connections_of_parent()
        return Multiplexer(
            self._address,
            self._tls_context(),
            *self._timeouts,
            self._idle_multiplexed,
            self._unreachable,
        )

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer to one request; raises the errors of `http.client` and the operating system.

        A request that a server leaves unanswered on an idle connection is sent again on a new one.
        """
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
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return reply

    def _idle_connection(self) -> WireConnection | None:
        self._forget_connections_of_parent()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - connection.idle_since < LONGEST_IDLE_SECONDS:
                return connection
            connection.close()

    def _new_connection(self) -> WireConnection:
        return WireConnection(*self._address, self._tls_context(), *self._timeouts)

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._make_tls is not None and self._tls is None:
            self._tls = self._make_tls()
        return self._tls

    def _forget_connections_of_parent(self) -> None:
        """A forked child must not speak on its parent's connections."""
        if self._process != os.getpid():
            self._idle.clear()
            self._idle_multiplexed.clear()
            self._process = os.getpid()


def _close_all(idle: deque[WireConnection], multiplexed: deque[Connection]) -> None:
    while idle:
        idle.pop().close()
    while multiplexed:
        multiplexed.pop().socket.close()
