"""Progress in a log: one line every thirty seconds, however many phases come and go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from lakesweep.progress.snapshot import ProgressSnapshot

__all__ = ["LogSink"]

logger = logging.getLogger(__name__)

EVERY_SECONDS = 30.0


class LogSink:
    """Logs the phase under way and the whole run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at = clock() + EVERY_SECONDS

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Log a line, if it is time for one."""
        running = snapshot.running
        if running is None or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + EVERY_SECONDS
        logger.info("repo#%s %s; %s", snapshot.repository, running, snapshot)
