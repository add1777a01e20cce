"""Connections that neither wait nor grow for ever.

The HTTP server bounds how long an idle connection is kept, and `api.limits` how long and how large a body may be. Between
the two lies a client that opens a connection and never finishes a TLS handshake or a request's headers, or sends headers
without end; enough of those, and nobody else gets in.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD_BYTES = 64 * 1024
_MOST_WAITING_BYTES = 64 * 1024


class GatheredWrites:
    """A transport that sends the pieces of one moment, such as an answer's headers and its body, together.

    To send a piece takes longer than anything else about a small answer, and wakes the client up for it.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send with whatever else comes before the loop goes on; a large piece goes at once."""
        self._waiting.append(data)
        if len(data) > _MOST_WAITING_BYTES:
            self._send()
        elif len(self._waiting) == 1:
            self._loop.call_soon(self._send)

    def close(self) -> None:
        """Send what waits, then close."""
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self._transport.is_closing():
                self._transport.write(data)


class ImpatientLoop(uvloop.Loop):
    """An event loop whose servers wait a bounded time for a TLS handshake: no protocol hears of a connection before."""

    handshake_seconds = 30.0

    async def create_server(self, *args: Any, **how: Any) -> asyncio.Server:
        """Listen, with the bound where TLS is spoken."""
        if how.get("ssl") is not None:
            how.setdefault("ssl_handshake_timeout", self.handshake_seconds)
        return cast(asyncio.Server, await super().create_server(*args, **how))


class ImpatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a bound on the time from a connection's (or a request's) first moment to the end of its headers.

    The parser has no bound of its own on what is neither body nor complete: headers, trailers, extensions of chunks.
    So the bytes are counted that led to nothing yet.
    """

    header_seconds = 30.0

    _deadline: asyncio.TimerHandle | None = None
    _bytes_without_end = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        super().connection_made(GatheredWrites(transport, self.loop))  # type: ignore[arg-type]
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Read on, unless what came so far is too much for headers."""
        self._bytes_without_end += len(data)
        super().data_received(data)
        if self._bytes_without_end > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")

    def on_message_begin(self) -> None:
        """Start the clock with a request; a further piece of it does not start it anew."""
        super().on_message_begin()
        if self._deadline is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """Stop the clock: the rest of the request has bounds of its own."""
        self._stop_clock()
        self._bytes_without_end = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body came to its end."""
        self._bytes_without_end = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """So did a request."""
        self._bytes_without_end = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no timer behind."""
        self._stop_clock()
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
