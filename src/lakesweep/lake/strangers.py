"""Connections whose other end has not proved who it is: they are few, short and soon over.

Whoever shows valid credentials once is known for the rest of the connection, and none of this concerns them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from lakesweep.lake.api.auth import KNOWN_KEY
from lakesweep.lake.api.limits import RequestLimits
from lakesweep.lake.connections import ImpatientProtocol


class WaryProtocol(ImpatientProtocol):
    """HTTP/1.1 that ends a stranger's connection after a fixed time, whatever comes or trickles in meanwhile.

    When there are too many strangers, the one that has been here longest goes: whoever has credentials shows them
    within moments, so it is never they who wait.
    """

    limits = RequestLimits()
    strangers: dict[WaryProtocol, None]

    _last_moment: asyncio.TimerHandle | None = None
    _is_known = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the stranger's time, and make room."""
        super().connection_made(transport)
        self._keep_alive_of_known = self.timeout_keep_alive
        self.timeout_keep_alive = self.limits.stranger_idle_seconds  # type: ignore[assignment]
        self._last_moment = self.loop.call_later(self.limits.stranger_seconds, self._end)
        self.strangers[self] = None
        if len(self.strangers) > self.limits.max_strangers:
            next(iter(self.strangers))._end()

    def on_message_begin(self) -> None:
        """Let the app say when the sender is known."""
        super().on_message_begin()
        self.scope["state"][KNOWN_KEY] = self.become_known

    def become_known(self) -> None:
        """The sender showed valid credentials. May be called from any thread."""
        if not self._is_known:
            self.loop.call_soon_threadsafe(self._know)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave nothing behind."""
        self._forget()
        super().connection_lost(exc)

    def _know(self) -> None:
        self._is_known = True
        self.timeout_keep_alive = self._keep_alive_of_known
        self._forget()

    def _forget(self) -> None:
        self.strangers.pop(self, None)
        if self._last_moment is not None:
            self._last_moment.cancel()
            self._last_moment = None

    def _end(self) -> None:
        self._forget()
        # Not `close`, which would wait for a stranger to read what was sent to them.
        self.transport.abort()


def protocol_with(limits: RequestLimits) -> type[WaryProtocol]:
    """The protocol of one server, with its bounds and its strangers."""
    members: dict[str, Any] = {
        "header_seconds": limits.header_seconds,
        "limits": limits,
        "strangers": {},
    }
    return type("_Wary", (WaryProtocol,), members)
