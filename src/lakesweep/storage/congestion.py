"""How many requests may be in flight: additive increase, multiplicative decrease, per prefix and for the store.

Object stores throttle by prefix (S3's partitions) or by account (Azure). Each prefix has a window of its own, cut in
half when the store says "slow down" and grown by about one request per round of successes. Only when a prefix is
down to one request and still throttled is the store's window cut too, so one hot prefix does not slow the others.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_FIRST_LIMIT = 16.0
_MAX_PREFIXES = 1024
# Requests already under way when a window was cut report the same overload; they must not cut it again.
_CUT_PAUSE_SECONDS = 0.5


@dataclass(slots=True)
class _Window:
    limit: float
    in_flight: int = 0
    cut_at: float = field(default=float("-inf"))

    @property
    def has_room(self) -> bool:
        return self.in_flight < max(1, int(self.limit))

    def grow(self, ceiling: int) -> None:
        self.limit = min(float(ceiling), self.limit + 1.0 / self.limit)

    def cut(self, now: float) -> None:
        if now - self.cut_at >= _CUT_PAUSE_SECONDS:
            self.limit = max(1.0, self.limit / 2)
            self.cut_at = now


@dataclass(slots=True)
class _Waiter:
    window: _Window
    admitted: threading.Event = field(default_factory=threading.Event)


class CongestionControl:
    """Admits requests to one store; `slot` waits for room, `throttled` and `succeeded` move the windows."""

    def __init__(self, ceiling: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._ceiling = max(1, ceiling)
        self._clock = clock
        self._lock = threading.Lock()
        self._store = _Window(float(self._ceiling))
        self._prefixes: OrderedDict[str, _Window] = OrderedDict()
        self._waiters: list[_Waiter] = []

    @contextmanager
    def slot(self, prefix: str) -> Iterator[None]:
        """Room for one request under `prefix`; waits its turn until there is some."""
        with self._lock:
            window = self._window(prefix)
            waiter = None
            if not self._waiters and self._store.has_room and window.has_room:
                self._let_in(window)
            else:
                waiter = _Waiter(window)
                self._waiters.append(waiter)
                self._admit()
        try:
            if waiter is not None:
                waiter.admitted.wait()
            yield
        finally:
            with self._lock:
                if waiter is None or waiter.admitted.is_set():
                    window.in_flight -= 1
                    self._store.in_flight -= 1
                else:
                    self._waiters.remove(waiter)  # Interrupted while waiting.
                self._admit()

    def succeeded(self, prefix: str) -> None:
        """A request under `prefix` was answered."""
        with self._lock:
            self._window(prefix).grow(self._ceiling)
            self._store.grow(self._ceiling)
            self._admit()

    def throttled(self, prefix: str) -> None:
        """The store asked to slow down under `prefix`."""
        with self._lock:
            now = self._clock()
            window = self._window(prefix)
            if window.limit <= 1.0:
                self._store.cut(now)
            window.cut(now)

    def limit(self, prefix: str) -> int:
        """How many requests `prefix` may have in flight now."""
        with self._lock:
            return max(1, int(min(self._window(prefix).limit, self._store.limit)))

    @property
    def total_limit(self) -> int:
        """How many requests the whole store may have in flight now."""
        with self._lock:
            return max(1, int(self._store.limit))

    def _let_in(self, window: _Window) -> None:
        window.in_flight += 1
        self._store.in_flight += 1

    def _admit(self) -> None:
        """Lets in, first come first served, whoever has room; only they are woken."""
        place = 0
        while place < len(self._waiters) and self._store.has_room:
            waiter = self._waiters[place]
            if waiter.window.has_room:
                del self._waiters[place]
                self._let_in(waiter.window)
                waiter.admitted.set()
            else:
                place += 1

    def _window(self, prefix: str) -> _Window:
        window = self._prefixes.get(prefix)
        if window is None:
            window = _Window(min(_FIRST_LIMIT, float(self._ceiling)))
            self._prefixes[prefix] = window
            self._forget_idle()
        self._prefixes.move_to_end(prefix)
        return window

    def _forget_idle(self) -> None:
        if len(self._prefixes) <= _MAX_PREFIXES:
            return
        waited_for = {id(waiter.window) for waiter in self._waiters}
        for name, window in list(self._prefixes.items())[: len(self._prefixes) // 2]:
            if window.in_flight == 0 and id(window) not in waited_for:
                del self._prefixes[name]
