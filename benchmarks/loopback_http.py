"""HTTP/1.1 on the loopback interface, just enough of it, with a wait and with failures where they are asked for.

A server that is slower than its client measures itself: `Load` says how busy it was, and how many requests a second it
could have answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote

_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content"}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes | memoryview = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Trouble:
    """What makes a server on loopback more like one far away: a wait before each answer, errors, and throttling.

    Shares are of all requests, drawn from a seed, so that each run meets as many.
    """

    latency_seconds: float = 0.0
    error_share: float = 0.0
    throttle_share: float = 0.0
    seed: int = 17
    struck: Counter[int] = field(default_factory=Counter)  # status → answers
    _chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)

    def strike(self) -> int | None:
        """The status that a request fails with, or None."""
        if not self.error_share and not self.throttle_share:
            return None
        drawn = self._chance.random()
        if drawn >= self.error_share + self.throttle_share:
            return None
        status = 500 if drawn < self.error_share else 503
        self.struck[status] += 1
        return status


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a server was between two looks at it: the CPU of its thread, all that it did included."""

    requests: int
    cpu_seconds: float
    seconds: float

    @property
    def busy_share(self) -> float:
        """The share of the time in which the server had something to do; 1 would mean that clients waited for it."""
        return self.cpu_seconds / max(self.seconds, 1e-9)

    @property
    def ceiling(self) -> float:
        """How many such requests a second the server could have answered."""
        return self.requests / max(self.cpu_seconds, 1e-9)

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests, {self.cpu_seconds:.1f} s of the server's CPU ({self.busy_share:.0%} of one core), "
            f"which could answer {self.ceiling:,.0f} such requests a second"
        )


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive. A client waits for one answer before it asks again."""

    def __init__(
        self,
        answer: Callable[[Request], Response],
        connections: set[Any],
        latency_seconds: float,
    ) -> None:
        self._answer = answer
        self._connections = connections
        self._latency_seconds = latency_seconds
        self._buffer = bytearray()
        self._head: tuple[str, dict[str, str], int] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(transport)

    def connection_lost(self, reason: Exception | None) -> None:
        self._connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (request := self._request()) is not None:
            if self._latency_seconds:
                loop = asyncio.get_running_loop()
                loop.call_later(self._latency_seconds, self._reply, request)
            else:
                self._reply(request)

    def _request(self) -> Request | None:
        """The next whole request in the buffer."""
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            lines = self._buffer[:end].decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines[1:])
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            self._head = (lines[0], headers, int(headers.get("content-length", "0")))
            del self._buffer[: end + 4]
            if headers.get("expect") == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        line, headers, length = self._head
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._head = None
        method, target, _ = line.split(" ")
        path, _, query = target.partition("?")
        bucket, _, key = path.lstrip("/").partition("/")
        pairs = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        return Request(method, unquote(bucket), unquote(key), pairs, headers, body)

    def _reply(self, request: Request) -> None:
        response = self._answer(request)
        out = {"Content-Length": str(len(response.body)), **response.headers}
        reason = _REASONS.get(response.status, "Refused")
        lines = [
            f"HTTP/1.1 {response.status} {reason}",
            *(f"{k}: {v}" for k, v in out.items()),
            "",
            "",
        ]
        # Two writes: joining would copy a quarter of a megabyte a page.
        self._transport.write("\r\n".join(lines).encode("latin-1"))
        if response.body:
            self._transport.write(response.body)
