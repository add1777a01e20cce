"""What is told about requests: a line in the audit log for each, counted and timed for `/metrics`."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.errors import ConfigError
from lakesweep.lake.values import Credentials

logger = logging.getLogger(__name__)

_VISIT_KEY = "lakesweep_visit"


@dataclass(slots=True)
class Visit:
    """One request, as far as it is known: who asks for what, and what became of it. Never a secret, nor a query."""

    method: str
    path: str
    client: str
    started: float
    caller: Credentials | None = None
    operation: str | None = None
    repository: str | None = None
    target: str | None = None
    """The object's path, where it is not in `path`."""
    status: int | None = None
    """None when the client got no answer."""
    seconds: float = 0.0
    bytes_received: int = 0
    bytes_sent: int = 0


class Observer(Protocol):
    """Is told of every request."""

    def answered(self, visit: Visit) -> None:
        """The answer is about to be sent, or there is none."""
        ...

    def ended(self, visit: Visit) -> None:
        """The last byte was sent, or the client went away."""
        ...


def note(
    scope: MutableMapping[str, Any],
    caller: Credentials | None,
    operation: str | None = None,
    repository: str | None = None,
    target: str | None = None,
) -> None:
    """Say who asks for what; called by whoever finds it out."""
    visit: Visit | None = scope.get(_VISIT_KEY)
    if visit is not None:
        visit.caller = caller
        visit.operation = operation
        visit.repository = repository
        visit.target = target


class ObserveRequests:
    """ASGI middleware that tells observers of every request."""

    def __init__(self, app: ASGIApp, observers: tuple[Observer, ...]) -> None:
        self._app = app
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = (scope.get("client") or ("",))[0]
        visit = Visit(scope["method"], scope["path"], client, time.perf_counter())
        scope[_VISIT_KEY] = visit

        async def count_received() -> Message:
            message = await receive()
            visit.bytes_received += len(message.get("body", b""))
            return message

        async def count_sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                # Before the client knows: no answer is given that is not on record.
                self._tell_answered(visit)
            visit.bytes_sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, count_received, count_sent)
        finally:
            if visit.status is None:
                self._tell_answered(visit)
            visit.seconds = time.perf_counter() - visit.started
            for observer in self._observers:
                observer.ended(visit)

    def _tell_answered(self, visit: Visit) -> None:
        for observer in self._observers:
            observer.answered(visit)


class AuditLog:
    """Appends one JSON line for each request: who, what, on what, with which result."""

    def __init__(self, path: Path) -> None:
        """Open the file, which is its owner's alone.

        Raises:
            ConfigError: it can't be written.
        """
        self._path = path
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise ConfigError(
                f"The audit log {path} can't be written: {error.strerror}. The lake was not started."
            ) from error

    def answered(self, visit: Visit) -> None:
        """Write the line; one call of the system, so that lines of several processes don't mix."""
        caller = visit.caller
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "user": caller.username if caller else None,
            "access_key_id": caller.access_key_id if caller else None,
            "client": visit.client,
            "operation": visit.operation,
            "method": visit.method,
            "path": visit.path,
            "repository": visit.repository,
            "object": visit.target,
            "status": visit.status,
        }
        try:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        except OSError as error:
            logger.error("the audit log %s can't be written: %s", self._path, error.strerror)

    def reopen(self) -> None:
        """Go on in a file of the same name, once somebody has moved the one that is open; safe beside writers."""
        try:
            new = self._open()
        except OSError as error:
            logger.error(
                "the audit log %s can't be opened anew: %s; lines go to the earlier file",
                self._path,
                error.strerror,
            )
            return
        # One call of the system: each line is written to the one file or the other.
        os.dup2(new, self._descriptor, inheritable=False)
        os.close(new)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def ended(self, visit: Visit) -> None:
        """Nothing more is recorded."""

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
