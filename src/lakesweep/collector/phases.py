"""The steps of a run: timed, logged with their numbers when they end, shown while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakesweep.collector.record import Phase, RunRecord
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.reporting import ReportingEngine
from lakesweep.engine.tasks import Engine
from lakesweep.progress import Display, ProgressBoard, human_count
from lakesweep.progress.board import Mailbox

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Step:
    """A phase under way. Set `items` when the number is known, and `said` for the text of its closing log line."""

    items: int = 0
    size_bytes: int = 0
    said: str = ""

    def handled(self, tally: Tally) -> None:
        """Set how many objects and bytes the phase has handled."""
        self.items, self.size_bytes = tally.objects, tally.bytes


class Phases:
    """Collects the phases of one run, and holds the record that the run made durable last.

    On a terminal, closing lines are logged at debug level only: the display has said it.
    """

    def __init__(self, repository: str, display: Display | None = None) -> None:
        self.repository = repository
        self.board = ProgressBoard(repository, display)
        is_on_screen = display is not None and display.is_terminal
        self._level = logging.DEBUG if is_on_screen else logging.INFO
        self._zero = time.monotonic()
        self.done: list[Phase] = []
        self.saved_record: RunRecord | None = None
        self.may_write_reports = False  # once it is known that our own folder is nobody else's

    @contextmanager
    def phase(self, name: str) -> Iterator[Step]:
        """Time a step; its closing log line has its numbers."""
        step = Step()
        start = time.monotonic()
        logger.debug("repo#%s %s …", self.repository, name)
        unit = _UNITS.get(name, "objects")
        with self.board.phase(name, _UNITS_UNDER_WAY.get(name, unit)) as shown:
            yield step
            shown.unit = unit
            shown.end(step.items, step.size_bytes)
        seconds, began = time.monotonic() - start, round(start - self._zero, 3)
        self.done.append(Phase(name, round(seconds, 3), step.items, began, step.size_bytes))
        logger.log(
            self._level,
            "repo#%s %s: %s (%.1f s)",
            self.repository,
            name,
            step.said or human_count(step.items, unit),
            seconds,
        )

    def advance(self, items: int) -> None:
        """Show that the driver itself has handled this many more items."""
        phase = self.board.current
        if phase is not None:
            phase.advance(items)

    def show_tasks(self, done: int, total: int) -> None:
        """Show how many of the engine's tasks are done: where nobody knows a total of items, this is the progress."""
        phase = self.board.current
        if phase is not None and total:
            phase.tasks_done, phase.tasks = done, total


def reporting_engine(
    engine: Engine, phases: Phases, elsewhere: Callable[[], Mailbox | None]
) -> Engine:
    """The engine, its tasks reporting to the phases if progress is shown; `elsewhere` carries reports between machines."""
    return ReportingEngine(engine, phases.board, elsewhere) if phases.board.is_shown else engine


# What a phase's `items` are, where they are not objects.
_UNITS = {
    **{"commits": "commits", "identify": "commits", "ranges": "ranges"},
    **{"metadata": "files", "manifest lists": "files"},
}
# Candidates and references are read before they meet.
_UNITS_UNDER_WAY = {"judge": "names"}
