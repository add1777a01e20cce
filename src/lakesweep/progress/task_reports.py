"""What tasks report while they work: objects, bytes, retries. A report that is lost changes nothing but the display.

A work function calls `advance(objects, bytes)`. Where nobody listens, that does nothing.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    *("Counts", "Report", "ReportChannel", "ReportedWork", "advance", "note_retry"),
    *("own_retries", "process_id"),
]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was handled. Retries and throttled requests are those of a process to its object stores."""

    objects: int = 0
    size_bytes: int = 0
    retries: int = 0
    throttled: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.objects + other.objects,
            self.size_bytes + other.size_bytes,
            self.retries + other.retries,
            self.throttled + other.throttled,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.objects - other.objects,
            self.size_bytes - other.size_bytes,
            self.retries - other.retries,
            self.throttled - other.throttled,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What one task of one scatter has done since it began; a later report takes the place of an earlier one."""

    scatter: str
    task: str
    process: str
    counts: Counts


class ReportChannel(Protocol):
    """How reports get from a task to the driver. Small and picklable: it travels with each task."""

    @property
    def every_seconds(self) -> float:
        """A task sends no more often."""
        ...

    @property
    def tells_all(self) -> bool:
        """Whether a task that is done before it has sent anything sends a report still: it costs next to nothing."""
        ...

    def open(self) -> Callable[[Report], None]:
        """What sends a report. It may raise, and is not used again then."""
        ...


_retries = _throttled = 0  # of this process, since it began


def note_retry(*, is_throttled: bool) -> None:
    """Count a request that is sent again, because it failed or because its server asked us to slow down."""
    global _retries, _throttled
    _retries += 1
    _throttled += is_throttled


def own_retries() -> Counts:
    """Retries of this process since it began."""
    return Counts(retries=_retries, throttled=_throttled)


def process_id() -> str:
    """Tells processes apart, also those of several machines."""
    return f"{os.getpid()}@{socket.gethostname()}"


def advance(objects: int = 0, size_bytes: int = 0) -> None:
    """Tell that the task under way has handled so many more."""
    teller = _teller.get()
    if teller is not None:
        teller.advance(Counts(objects, size_bytes))


class ReportedWork:
    """A work function whose `advance` calls reach the driver."""

    def __init__(
        self,
        work: Callable[[Iterator[Any]], Iterator[Any]],
        channel: ReportChannel,
        scatter: str,
    ) -> None:
        self._work = work
        self._channel = channel
        self._scatter = scatter

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]:
        teller, before = _Teller(self._channel, self._scatter), _teller.get()
        _teller.set(teller)
        try:
            yield from self._work(items)
        finally:
            _teller.set(before)
            teller.close()


class _Teller:
    """Adds up what one task does, and sends it now and then."""

    def __init__(self, channel: ReportChannel, scatter: str) -> None:
        self._channel = channel
        self._scatter, self._task = scatter, uuid.uuid4().hex
        self._counts, self._before = Counts(), own_retries()
        self._send: Callable[[Report], None] | None = None
        self._is_silent = False
        self._next_at = time.monotonic() + channel.every_seconds

    def advance(self, more: Counts) -> None:
        self._counts += more
        if time.monotonic() >= self._next_at:
            self._tell()

    def close(self) -> None:
        """The last report, of a task that has sent some, or that nobody should miss."""
        if self._send is not None or self._channel.tells_all or own_retries() != self._before:
            self._tell()

    def _tell(self) -> None:
        if self._is_silent:
            return
        counts = self._counts + (own_retries() - self._before)
        try:
            self._send = self._send or self._channel.open()
            self._send(Report(self._scatter, self._task, process_id(), counts))
        except Exception:  # noqa: BLE001 (display only: whatever goes wrong, the task goes on)
            self._is_silent = True
        self._next_at = time.monotonic() + self._channel.every_seconds


_teller: ContextVar[_Teller | None] = ContextVar("teller", default=None)
