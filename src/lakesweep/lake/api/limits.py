"""Bounds on what one request may send and how slowly it may send it.

They stand in front of routing, so that no handler, of the REST API or of the gateway, can forget them. A body that
announces too much is refused before a byte is read; one that lies about its length is cut off where the bound is.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.lake.api.auth import OPEN_ENDPOINTS
from lakesweep.lake.api.replies import error_reply

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may cost. Object uploads are bounded by size and silence, all else also by total time."""

    max_open_bytes: int = 4 * 1024
    """A body at an endpoint that asks for no credentials."""
    max_document_bytes: int = 8 * _MIB
    """A JSON body. A thousand paths of 1024 bytes each, escaped, fit several times."""
    max_object_bytes: int = 48 * 1024 * 1024 * _MIB
    """An object, sent in one request. The largest object that S3 keeps."""
    header_seconds: float = 30.0
    """Longest time from a connection's start to the end of a request's headers (see `lake.connections`)."""
    silence_seconds: float = 60.0
    """Longest wait for the next piece of a body."""
    document_seconds: float = 120.0
    """Longest time for a whole JSON body, so that one byte a minute can't hold a connection for ever."""
    stranger_seconds: float = 30.0
    """Life of a connection that has not shown valid credentials (see `lake.strangers`)."""
    stranger_idle_seconds: float = 5.0
    """Longest pause between two requests of such a connection."""
    max_strangers: int = 512
    """Such connections at a time."""


class LimitRequests:
    """ASGI middleware that holds every request to `RequestLimits`."""

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a `receive` that enforces the bounds."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        carries_object = _carries_object(scope)
        limits = self._limits
        max_bytes = limits.max_object_bytes if carries_object else limits.max_document_bytes
        if (scope["method"], scope["path"]) in OPEN_ENDPOINTS:
            carries_object, max_bytes = False, limits.max_open_bytes
        if _announced_bytes(scope) > max_bytes:
            await error_reply(413, _too_large(max_bytes))(scope, receive, send)
            return
        deadline = None if carries_object else time.monotonic() + limits.document_seconds
        body = _BoundedBody(receive, max_bytes, limits.silence_seconds, deadline)
        await self._app(scope, body.receive, send)


class _BoundedBody:
    def __init__(
        self, receive: Receive, max_bytes: int, silence_seconds: float, deadline: float | None
    ) -> None:
        self._receive = receive
        self._bytes_left = max_bytes
        self._max_bytes = max_bytes
        self._silence_seconds = silence_seconds
        self._deadline = deadline
        self._is_complete = False

    async def receive(self) -> Message:
        if self._is_complete:
            # What comes now is the wait for a disconnect, which may last as long as the reply does.
            return await self._receive()
        seconds = self._silence_seconds
        if self._deadline is not None:
            seconds = min(seconds, max(0.0, self._deadline - time.monotonic()))
        try:
            async with asyncio.timeout(seconds):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(
                408,
                "The request's body did not arrive in time, so nothing was done. Send it again.",
            ) from None
        if message["type"] == "http.request":
            self._bytes_left -= len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._bytes_left < 0:
                raise HTTPException(413, _too_large(self._max_bytes))
        return message


def _carries_object(scope: Scope) -> bool:
    path: str = scope["path"]
    if not path.startswith("/api/"):
        return True
    return scope["method"] == "POST" and path.endswith("/objects")


def _announced_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _too_large(max_bytes: int) -> str:
    return f"The request's body is larger than {max_bytes} bytes, so it was not read and nothing was done."
