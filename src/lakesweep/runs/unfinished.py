"""The record of a run that did not come to its end, for whoever reads records and not messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lakesweep.errors import ConfigError, LakesweepError, UnsafeToSweepError
from lakesweep.runs.phases import Phases
from lakesweep.runs.record import RunRecord, RunStatus


def unfinished_record(
    repository: str,
    error: BaseException,
    *,
    phases: Phases | None,
    started_at: datetime,
    finished_at: datetime,
    what: str = "",
    flow: str = "",
    mark_id: str = "",
) -> RunRecord:
    """What is known of the run: the record that it made durable last, else one with the reason alone."""
    is_refused = isinstance(error, ConfigError | UnsafeToSweepError)
    status = RunStatus.REFUSED if is_refused else RunStatus.FAILED
    saved = phases.saved_record if phases is not None else None
    if saved is None:
        return RunRecord(
            repository=repository,
            run_id="",
            mark_id=mark_id,
            what=what,
            flow=flow,
            status=status,
            reason=_reason(error),
            started_at=started_at,
            finished_at=finished_at,
            phases=tuple(phases.done) if phases is not None else (),
        )
    if saved.reason or saved.status is RunStatus.PARTLY_SWEPT:
        return saved  # the run said itself how it ended
    return replace(saved, status=status, reason=_reason(error), finished_at=finished_at)


def _reason(error: BaseException) -> str:
    if isinstance(error, LakesweepError):
        return error.message
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    # Of an error that nobody expected, whose message may be a page long.
    return f"{type(error).__name__}: {error}".splitlines()[0]
