"""What is known of a run under way, filled in by whoever learns it, and told when the run has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.metrics.outcome import RunOutcome

__all__ = ["LAKEFS", "NESSIE", "WatchedRun", "current_run", "watched_run"]

LAKEFS, NESSIE = "lakefs", "nessie"


@dataclass(slots=True)
class WatchedRun:
    """A run under way."""

    command: str = ""
    catalog: str = LAKEFS
    repository: str = ""
    phases: Phases | None = None
    record: RunRecord | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def kind(self) -> str:
        """Names runs that take about as long as each other."""
        return f"{self.catalog} {self.command} {self.repository}"

    def outcome(self, error: BaseException | None) -> RunOutcome:
        """How the run ended."""
        from lakesweep.metrics.outcome import RunOutcome, exit_status_of
        from lakesweep.progress import Counts

        status, kind = exit_status_of(error)
        named = self.repository or (self.record.repository if self.record is not None else "")
        phases = self.phases
        return RunOutcome(
            command=self.command,
            catalog=self.catalog,
            repository=named.removeprefix("lakefs://").strip("/"),
            started_at=self.started_at,
            finished_at=datetime.now(UTC),
            exit_status=status,
            kind=kind,
            record=self.record,
            phases=tuple(phases.done) if phases is not None else (),
            phases_began_at=phases.board.started_at if phases is not None else None,
            retries=phases.board.retries() if phases is not None else Counts(),
        )


_current: ContextVar[WatchedRun] = ContextVar("current_run")


def current_run() -> WatchedRun:
    """The run of the command under way; one that nobody hears of where there is none."""
    return _current.get(WatchedRun())


@contextmanager
def watched_run(
    command: str, metrics_file: Path | None, *, repository: str = ""
) -> Iterator[WatchedRun]:
    """Keep what is learned in the block about a run, and tell of it at the end, good or bad."""
    run = WatchedRun(command, repository=repository)
    before = _current.set(run)
    try:
        yield run
    except BaseException as error:
        _tell(run, error, metrics_file)
        raise
    else:
        _tell(run, None, metrics_file)
    finally:
        _current.reset(before)


def _tell(run: WatchedRun, error: BaseException | None, metrics_file: Path | None) -> None:
    from lakesweep.metrics.publish import is_asked, publish_outcome

    if error is None and run.phases is not None and run.phases.done:
        from lakesweep.progress.earlier_runs import keep_seconds

        keep_seconds(run.kind, ((phase.name, phase.seconds) for phase in run.phases.done))
    if is_asked(metrics_file):
        publish_outcome(run.outcome(error), metrics_file)
