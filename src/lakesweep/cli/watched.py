"""What is known of the run that a command makes, for whoever tells of it when it has ended, well or badly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.settings.values import OutputSettings

__all__ = ["WatchedRun", "current_run", "watched_run"]


@dataclass(slots=True)
class WatchedRun:
    """A run under way; what becomes known of it is filled in."""

    command: str = ""
    repository: str = ""
    phases: Phases | None = None
    record: RunRecord | None = None

    @property
    def kind(self) -> str:
        """Names runs that take about as long as each other."""
        return f"{self.command} {self.repository}"


_current: ContextVar[WatchedRun] = ContextVar("current_run")


def current_run() -> WatchedRun:
    """The run of the command under way."""
    return _current.get(WatchedRun())


@contextmanager
def watched_run(output: OutputSettings, command: str) -> Iterator[None]:
    """Keep what is learned in the block about a run, and tell of it at the end."""
    run = WatchedRun(command)
    before = _current.set(run)
    try:
        yield
        _keep_times(run)
    finally:
        _current.reset(before)


def _keep_times(run: WatchedRun) -> None:
    if run.phases is not None and run.phases.done:
        from lakesweep.progress.earlier_runs import keep_seconds

        keep_seconds(run.kind, ((phase.name, phase.seconds) for phase in run.phases.done))
