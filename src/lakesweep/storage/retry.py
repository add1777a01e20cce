"""Trying again: bounded, with jitter, and only what is safe to repeat."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageError, ThrottledError
from lakesweep.progress.task_reports import note_retry
from lakesweep.storage.translate import TRANSIENT
from lakesweep.storage.values import forever

_LONGEST_PAUSE_SECONDS = 10.0


def is_transient(error: StorageError) -> bool:
    """Whether the same request may go through a moment later (throttling is told apart)."""
    return error.kind == TRANSIENT


@dataclass(slots=True)
class Patience:
    """How often one request is tried again. Throttling is bounded by time, other trouble by a count."""

    options: StorageOptions
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    seconds_left: Callable[[], float] = forever  # no pause is longer, and none begins at 0
    _transient: int = 0
    _throttled: int = 0
    _throttled_since: float | None = field(default=None)

    def try_again(self, error: StorageError) -> bool:
        """Waits and says True when another try is due; False when patience is at its end."""
        if isinstance(error, ThrottledError):
            return self.wait_out_throttling()
        if not is_transient(error) or self._transient >= self.options.transient_retries:
            return False
        self._transient += 1
        note_retry(is_throttled=False)
        return self._pause(self._transient - 1)

    def wait_out_throttling(self) -> bool:
        """Waits and says True when a request that was throttled, if only partly, is due again; False when patience ends."""
        now = self.clock()
        if self._throttled_since is None:
            self._throttled_since = now
        if now - self._throttled_since >= self.options.throttle_patience_seconds:
            return False
        self._throttled += 1
        note_retry(is_throttled=True)
        return self._pause(self._throttled - 1)

    def renew(self) -> None:
        """Forgets past trouble, since the last try brought something."""
        self._transient = 0
        self._throttled = 0
        self._throttled_since = None

    def _pause(self, tries: int) -> bool:
        """Waits; False, without waiting, where no time is left for another try."""
        left = self.seconds_left()
        if left <= 0:
            return False
        # Full jitter: clients that failed together do not come back together.
        longest = min(
            _LONGEST_PAUSE_SECONDS, self.options.first_pause_seconds * 2 ** min(tries, 16)
        )
        self.sleep(min(left, longest * self.random()))
        return True
