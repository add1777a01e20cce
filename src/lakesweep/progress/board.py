"""The driver's board of a run's progress: phases, what their tasks reported, and the sinks that are shown it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from lakesweep.progress.snapshot import PhaseSnapshot, ProgressSink, ProgressSnapshot
from lakesweep.progress.task_reports import Counts, Report, ReportChannel, own_retries, process_id

__all__ = ["Display", "Mailbox", "PhaseProgress", "ProgressBoard"]

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 0.5


class Mailbox(Protocol):
    """Where reports of tasks come in."""

    @property
    def channel(self) -> ReportChannel:
        """What tasks send with."""
        ...

    def take(self) -> Iterator[Report]:
        """The reports that have come in; it does not wait for more."""
        ...

    def finish(self) -> Iterator[Report]:
        """The last reports of tasks that are over; nothing of them is left behind."""
        ...


@dataclass(frozen=True, slots=True)
class Display:
    """Who is shown a run's progress, and how long each of its phases took the last time."""

    sinks: Sequence[ProgressSink]
    earlier: Mapping[str, float] = field(default_factory=dict)
    is_terminal: bool = False  # what is on the screen need not be logged as well


@dataclass(slots=True)
class PhaseProgress:
    """A phase under way. The driver may count itself; what tasks report is added."""

    name: str
    unit: str = "objects"
    total: int | None = None
    total_bytes: int | None = None
    items: int = 0
    size_bytes: int = 0
    tasks_done: int = 0
    tasks: int = 0
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    _told: dict[str, Counts] = field(default_factory=dict, repr=False)
    _scatters: int = field(default=0, repr=False)

    def advance(self, items: int = 1, size_bytes: int = 0) -> None:
        """Count items that the driver itself has handled."""
        self.items += items
        self.size_bytes += size_bytes

    def expect(self, objects: int | None, size_bytes: int | None) -> None:
        """Tasks will handle about so many more. One scatter of which nobody knows makes the total unknown."""
        is_first, self._scatters = self._scatters == 0, self._scatters + 1
        known = (0 if is_first else self.total, 0 if is_first else self.total_bytes)
        self.total = None if objects is None or known[0] is None else known[0] + objects
        self.total_bytes = None if size_bytes is None or known[1] is None else known[1] + size_bytes

    def take(self, report: Report) -> None:
        """What a task has done so far."""
        self._told[report.task] = report.counts

    def end(self, items: int, size_bytes: int) -> None:
        """The phase is over, and these are its real numbers."""
        self.ended = time.monotonic()
        self.items, self.size_bytes, self.total, self.total_bytes = items, size_bytes, None, None
        self._told = {}

    def snapshot(self) -> PhaseSnapshot:
        """The phase at this moment."""
        told = sum(list(self._told.values()), Counts())
        return PhaseSnapshot(
            self.name,
            self.unit,
            self.items + told.objects,
            self.size_bytes + told.size_bytes,
            self.total,
            self.total_bytes,
            self.tasks_done,
            self.tasks,
            (self.ended or time.monotonic()) - self.began,
            self.ended is None,
        )


class ProgressBoard:
    """All phases of one run. While one is under way and somebody looks, a thread takes reports and shows a snapshot."""

    def __init__(self, repository: str, display: Display | None = None) -> None:
        self._repository = repository
        self._display = display or Display(())
        self._sinks = list(self._display.sinks)
        self._began, self.started_at = time.monotonic(), datetime.now(UTC)
        self._phases: list[PhaseProgress] = []
        self._open: list[PhaseProgress] = []
        self._mailboxes: list[Mailbox] = []
        self._phase_of: dict[str, PhaseProgress] = {}
        self._retries_before = own_retries()
        self._retries_told: dict[str, Counts] = {}
        self._lock = threading.Lock()

    @property
    def is_shown(self) -> bool:
        """Whether anybody looks."""
        return bool(self._display.sinks)

    @property
    def current(self) -> PhaseProgress | None:
        """The innermost phase under way."""
        return self._open[-1] if self._open else None

    @contextmanager
    def phase(self, name: str, unit: str) -> Iterator[PhaseProgress]:
        """A phase that is under way for as long as the block; its end has been given by the caller, or is told here."""
        phase = PhaseProgress(name, unit)
        self._phases.append(phase)
        self._open.append(phase)
        stop = threading.Event()
        if self._sinks and len(self._open) == 1:
            # Nobody waits for it: a look at a slow store must not hold up the run.
            watch = threading.Thread(target=self._watch, args=(stop,), name="progress", daemon=True)
            watch.start()
        try:
            yield phase
        finally:
            stop.set()
            self._open.remove(phase)
            if phase.ended is None:
                seen = phase.snapshot()
                phase.end(seen.items, seen.size_bytes)
            self._show()

    @contextmanager
    def listening(self, mailbox: Mailbox) -> Iterator[None]:
        """Take reports from this mailbox while the block runs, and its last ones at the end."""
        self._mailboxes.append(mailbox)
        try:
            yield
        finally:
            self._mailboxes.remove(mailbox)
            self._take(mailbox.finish)

    def scatter_begins(self, objects: int | None, size_bytes: int | None) -> str:
        """The id of a scatter that belongs to the phase under way, and handles about so much."""
        scatter, phase = uuid.uuid4().hex, self.current
        if phase is not None:
            phase.expect(objects, size_bytes)
            self._phase_of[scatter] = phase
        return scatter

    def retries(self) -> Counts:
        """Requests that were sent again, by the driver and, as far as they reported, by tasks."""
        return sum(self._retries_told.values(), own_retries() - self._retries_before)

    def snapshot(self) -> ProgressSnapshot:
        """The run at this moment."""
        return ProgressSnapshot(
            self._repository,
            self.started_at,
            time.monotonic() - self._began,
            tuple(phase.snapshot() for phase in list(self._phases)),
            self._display.earlier,
        )

    def _watch(self, stop: threading.Event) -> None:
        self._show()
        while not stop.wait(_EVERY_SECONDS):
            for mailbox in list(self._mailboxes):
                self._take(mailbox.take)
            if not stop.is_set():
                self._show()

    def _take(self, reports: Callable[[], Iterator[Report]]) -> None:
        try:
            for report in reports():
                phase = self._phase_of.get(report.scatter)
                if phase is not None:
                    phase.take(report)
                if report.process != process_id():
                    retries = Counts(
                        retries=report.counts.retries, throttled=report.counts.throttled
                    )
                    self._retries_told[report.task] = retries
        except Exception as error:  # noqa: BLE001 (display only: whatever goes wrong, the run goes on)
            logger.debug("reports of tasks could not be taken: %s", error)

    def _show(self) -> None:
        with self._lock:
            snapshot = self.snapshot()
            for sink in list(self._sinks):
                try:
                    sink.show(snapshot)
                except Exception as error:  # noqa: BLE001 (display only, as above)
                    logger.debug("progress is no longer shown by %r: %s", sink, error)
                    self._sinks.remove(sink)
