"""The moments of a run: something happens once, just before one of its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx

from lakesweep_testing.trouble import POLL, MeddlingTransport, Send, route_of

__all__ = ["OneMoment"]


class OneMoment(MeddlingTransport):
    """Lets something happen once, before the first request after `moment` answers; other requests wait for its end.

    Answers are counted and not requests, since a client asks twice when its machine stood still. Polls and look-ups of
    canaries are no moments: each run has another number of them, and they stand one like the other.
    """

    def __init__(
        self,
        moment: int,
        happen: Callable[[], None],
        meddle: Callable[[httpx.Request, Send], httpx.Response] = lambda r, send: send(r),
    ) -> None:
        super().__init__(meddle)
        self.before: str | None = (
            None  # the route of that request; None in a run that has no such moment
        )
        self._moment = moment
        self._happen = happen
        self._answers = 0
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        route = route_of(request)
        if route == POLL or route.endswith("/objects/stat"):
            return super().handle_request(request)
        with self._lock:
            if self.before is None and self._answers >= self._moment:
                self.before = route
                self._happen()
        response = super().handle_request(request)
        with self._lock:
            self._answers += 1
        return response
