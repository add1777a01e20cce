"""The steps of a run: timed, logged with their numbers when they end, shown while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakesweep.runs.record import Phase

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Step:
    """A phase under way; set `items` when the number is known, `said` for the words of its closing line."""

    items: int = 0
    said: str = ""


class Phases:
    """Collects the phases of one run."""

    def __init__(self, repository: str) -> None:
        self._repository = repository
        self.done: list[Phase] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[Step]:
        """Time a step; its closing log line has its numbers."""
        step = Step()
        start = time.monotonic()
        logger.debug("repo#%s %s …", self._repository, name)
        yield step
        seconds = time.monotonic() - start
        self.done.append(Phase(name, round(seconds, 3), step.items))
        logger.info(
            "repo#%s %s: %s (%.1f s)",
            self._repository,
            name,
            step.said or f"{step.items} items",
            seconds,
        )
