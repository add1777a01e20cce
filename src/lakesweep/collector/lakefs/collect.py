"""The runs as a caller sees them: collect = mark + plan + sweep, and its parts, each under the lease."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from lakesweep.collector import guards
from lakesweep.collector.lakefs.adoption import adopt_mark, adopted_id, folder_of, is_path, own_mark
from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.lakefs.between_runs.pruning import tidy_up
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.mark import fix_cutoff, mark, refuse_blind_listing
from lakesweep.collector.lakefs.marks import load_plan, mark_is_finished, refuse_failed
from lakesweep.collector.lakefs.paths import OWN, parse_mark_id
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.lakefs.sweep import load_record, refuse_without_copies, sweep
from lakesweep.collector.lease import Lease, NoLease
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import ConfigError, UnsafeToSweepError

logger = logging.getLogger(__name__)


def run_mark(context: RunContext, request: MarkRequest) -> RunRecord:
    """Mark and plan; delete nothing."""
    with leased_run(context, "mark") as lease:
        record, _ = mark(context, request, lease)
        return record


def run_gc(context: RunContext, marking: MarkRequest, sweeping: SweepRequest) -> RunRecord:
    """Mark, plan, sweep."""
    with leased_run(context, "gc") as lease:
        record, plan = mark(context, marking, lease)
        # One command: what its mark was allowed, its sweep is.
        sweeping = replace(sweeping, allow_lower_min_age=marking.allow_lower_min_age)
        return sweep(context, plan, record, sweeping, lease)


def run_sweep(context: RunContext, mark: str, request: SweepRequest) -> RunRecord:
    """Sweep what an earlier mark planned, re-verified. `mark` is its id, or the path of an older client's mark."""
    with leased_run(context, "sweep") as lease:
        plan = find_plan(context, mark, lease, request.min_age)
        return sweep(context, plan, load_record(context.store, plan), request, lease)


def find_plan(
    context: RunContext, mark: str, lease: Lease, min_age: timedelta | None = None
) -> Plan:
    """The plan of a mark, by id or by path; an older client's mark is taken over the first time it is named.

    What an older client's mark may name gets the usual minimum age, or `min_age` where that is higher.
    """
    store, name = context.store, context.name
    if not is_path(mark):
        return load_plan(store, name, parse_mark_id(mark))
    folder = folder_of(context.resources.target, name, mark)
    mark_id = own_mark(store, folder) or adopted_id(store, folder)
    if not mark_is_finished(store, mark_id):
        # Its rows need not be committed, so the server must tell of all that is staged.
        refuse_blind_listing(context.repository, What.ALL)
        cutoff = fix_cutoff(context, MarkRequest(), lease)
        if min_age is not None and min_age > cutoff.min_age:
            cutoff = replace(cutoff, min_age=min_age)
        return adopt_mark(store, name, folder, cutoff, context.resources.clock())
    return load_plan(store, name, mark_id)


def run_resume(context: RunContext, run_id: str, request: SweepRequest) -> RunRecord:
    """Go on with a sweep that was interrupted or that left keys; what is live is read again."""
    with leased_run(context, "resume") as lease:
        record = load_run(context.store, context.name, run_id)
        if record.flow in (BACKUP, RESTORE):
            raise ConfigError(
                f"The run {run_id} is a {record.flow}: give the same {record.flow} command again, and it goes on where "
                "it stopped. Nothing was touched.",
                kind="not-a-sweep",
            )
        refuse_failed(record)
        if record.status is RunStatus.SWEPT:
            return record.noted("this run was swept to its end: nothing was left to do")
        refuse_without_copies(record, request)
        plan = load_plan(context.store, context.name, parse_mark_id(record.mark_id))
        # The plan was confirmed when its sweep began; going on with it asks nothing new.
        confirm = guards.confirmation_of(plan.id, None, record) or request.confirm
        request = replace(request, confirm=confirm)
        return sweep(context, plan, record, request, lease)


@contextlib.contextmanager
def leased_run(context: RunContext, purpose: str) -> Iterator[Lease]:
    """The lease for a run, and retention of our own files before it is given up.

    A run that is refused may be refused every day, so its files are pruned too. After any other error nothing is
    touched: the store may be what failed, and a sweep may have to go on.
    """
    with held_lease(context, purpose) as lease:
        try:
            yield lease
        except UnsafeToSweepError:
            tidy_up(context.resources, context.keep_runs, lease)
            raise
        tidy_up(context.resources, context.keep_runs, lease)


@contextlib.contextmanager
def held_lease(context: RunContext, purpose: str) -> Iterator[Lease]:
    """The lease on the repository, or the user's word in its place."""
    kind = Lease if context.use_lease else NoLease
    with kind(
        context.store,
        context.name,
        purpose,
        folder=OWN,
        life=context.resources.margins.lease_life,
        process_tree=lambda: context.resources.engine.process_tree,
    ) as lease:
        yield lease
