"""The steps of a run: timed, logged with their numbers when they end, shown while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakesweep.collector.record import Phase, RunRecord
from lakesweep.progress import Phase as Bar
from lakesweep.progress import Progress, SilentProgress

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Step:
    """A phase under way; set `items` when the number is known, `said` for the words of its closing line."""

    items: int = 0
    said: str = ""


class Phases:
    """Collects the phases of one run, and holds the record that the run made durable last.

    With bars (a `Progress` that draws), closing lines are logged at debug level only: the bars have said it.
    """

    def __init__(self, repository: str, bars: Progress | None = None) -> None:
        self._repository = repository
        self._bars = bars or SilentProgress()
        self._level = logging.INFO if bars is None else logging.DEBUG
        self._bar: Bar | None = None
        self._zero = time.monotonic()
        self.done: list[Phase] = []
        self.saved_record: RunRecord | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[Step]:
        """Time a step; its closing log line has its numbers."""
        step = Step()
        start = time.monotonic()
        logger.debug("repo#%s %s …", self._repository, name)
        unit = _UNITS.get(name, "objects")
        outer = self._bar
        with self._bars.phase(name, unit=unit) as bar:
            self._bar = bar
            try:
                yield step
            finally:
                self._bar = outer
            bar.items, bar.total, bar.unit = step.items, None, unit
        seconds = time.monotonic() - start
        self.done.append(Phase(name, round(seconds, 3), step.items, round(start - self._zero, 3)))
        logger.log(
            self._level,
            "repo#%s %s: %s (%.1f s)",
            self._repository,
            name,
            step.said or f"{step.items} items",
            seconds,
        )

    def show_tasks(self, done: int, total: int) -> None:
        """So many of the engine's tasks are done: all that is known of a phase until it ends."""
        bar = self._bar
        if bar is not None and total:
            bar.items, bar.total, bar.unit = done, total, "tasks"
            bar.on_change()


# What a phase's `items` are, where they are not objects.
_UNITS = {"commits": "commits", "ranges": "ranges", "canaries": "canaries", "verify": "canaries"}
