"""Connections that don't wait for ever.

The HTTP server bounds how long an idle connection is kept, and `api.limits` how long a body may take. Between the two
lies a client that opens a connection and never finishes a request's headers; enough of those, and nobody else gets in.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 with a bound on the time from a connection's (or a request's) first moment to the end of its headers."""

    header_seconds = 30.0

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection."""
        super().connection_made(transport)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the headers are complete; a piece of them does not start it anew."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_clock()
        elif self._deadline is None and self.conn.trailing_data[0]:
            self._start_clock()

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


def protocol_with(header_seconds: float) -> type[ImpatientProtocol]:
    """The protocol with another bound."""
    return type("_Impatient", (ImpatientProtocol,), {"header_seconds": header_seconds})
