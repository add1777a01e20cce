"""The record of a run that did not come to its end, for whoever reads records and not messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.errors import (
    ConfigError,
    InterruptedRunError,
    LakesweepError,
    UnsafeToSweepError,
)

STOPPED = "stopped by the user"


def status_after(error: BaseException) -> RunStatus:
    """How a run ended that deleted nothing: doubt and wrong settings are refusals, all else is a failure."""
    is_refused = isinstance(error, ConfigError | UnsafeToSweepError)
    return RunStatus.REFUSED if is_refused else RunStatus.FAILED


def unfinished_record(
    repository: str,
    error: LakesweepError | KeyboardInterrupt,
    *,
    phases: Phases | None,
    started_at: datetime,
    finished_at: datetime,
    what: str = "",
    flow: str = "",
    mark_id: str = "",
) -> RunRecord:
    """What is known of the run: the record that it made durable last, else one with the reason alone."""
    status = status_after(error)
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
            kind=kind_of(error),
            started_at=started_at,
            finished_at=finished_at,
            phases=tuple(phases.done) if phases is not None else (),
        )
    if saved.reason or saved.status is RunStatus.PARTLY_SWEPT:
        # The run said itself how it ended.
        return replace(saved, kind=saved.kind or kind_of(error))
    ended = replace(saved, status=status, reason=_reason(error), finished_at=finished_at)
    return replace(ended, kind=kind_of(error))


def kind_of(error: BaseException) -> str:
    """The stable name of what ended a run."""
    if isinstance(error, LakesweepError):
        return error.kind
    is_stopped = isinstance(error, KeyboardInterrupt)
    return (InterruptedRunError if is_stopped else LakesweepError).default_kind


def _reason(error: LakesweepError | KeyboardInterrupt) -> str:
    if isinstance(error, LakesweepError):
        return error.message
    return STOPPED
