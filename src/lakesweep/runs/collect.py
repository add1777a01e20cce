"""The runs as a caller sees them: collect = mark + plan + sweep, and its parts, each under the lease."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from lakesweep.errors import ConfigError
from lakesweep.runs.context import RunContext
from lakesweep.runs.lease import Lease, NoLease
from lakesweep.runs.mark import Marked, mark
from lakesweep.runs.paths import RunFolder, RunId, parse_mark_id
from lakesweep.runs.plan import load_plan
from lakesweep.runs.record import RunRecord, RunStatus, decode_record
from lakesweep.runs.request import MarkRequest, SweepRequest
from lakesweep.runs.sweep import load_record, sweep

logger = logging.getLogger(__name__)


def run_mark(context: RunContext, request: MarkRequest) -> RunRecord:
    """Mark and plan; delete nothing."""
    with _lease(context, "mark") as lease:
        return mark(context, request, lease).record


def run_gc(context: RunContext, marking: MarkRequest, sweeping: SweepRequest) -> RunRecord:
    """Mark, plan, sweep."""
    with _lease(context, "gc") as lease:
        marked: Marked = mark(context, marking, lease)
        return sweep(context, marked.plan, marked.record, sweeping, lease)


def run_sweep(context: RunContext, mark_id: str, request: SweepRequest) -> RunRecord:
    """Sweep what an earlier mark planned, re-verified."""
    with _lease(context, "sweep") as lease:
        plan = load_plan(context.store, context.name, parse_mark_id(mark_id))
        return sweep(context, plan, load_record(context, plan), request, lease)


def run_resume(context: RunContext, run_id: str, request: SweepRequest) -> RunRecord:
    """Go on with a sweep that was interrupted or that left keys; what is live is read again."""
    with _lease(context, "resume") as lease:
        key = RunFolder(RunId(run_id)).record
        found = [k for k, info in context.store.stat_many([key]) if info is not None]
        if not found:
            raise ConfigError(
                f"{context.name} has no run {run_id}. Nothing was deleted. `lakesweep runs list` shows the runs.",
                kind="no-run",
            )
        record = decode_record(context.store.read(key), key)
        if record.status is RunStatus.SWEPT:
            return record.noted("this run was swept to its end: nothing was left to do")
        plan = load_plan(context.store, context.name, parse_mark_id(record.mark_id))
        # The plan was confirmed when its sweep began; going on with it asks nothing new.
        confirmed = record.status is RunStatus.PARTLY_SWEPT
        request = replace(request, confirm=plan.id) if confirmed else request
        return sweep(context, plan, record, request, lease)


@contextlib.contextmanager
def _lease(context: RunContext, purpose: str) -> Iterator[Lease]:
    kind = Lease if context.use_lease else NoLease
    with kind(context.store, context.name, purpose) as lease:
        yield lease
