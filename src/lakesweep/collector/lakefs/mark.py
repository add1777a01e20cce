"""Mark: find the garbage, prove the numbers, write the plan. Nothing is deleted here."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.canaries import refuse_dead_canaries, take_canaries
from lakesweep.collector.lakefs.clocks import compare_clocks
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.failed_marks import Attempt, failure_on_record
from lakesweep.collector.lakefs.live import LiveRead, Roots, read_live
from lakesweep.collector.lakefs.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.paths import (
    MarkId,
    RunFolder,
    RunId,
    mark_folder,
    parse_mark_id,
)
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.lakefs.reuploads import (
    SearchedRanges,
    SplitGarbage,
    find_reuploads,
    split_garbage,
    tally_of,
)
from lakesweep.collector.lakefs.saved import save_for_sweep, save_range_index
from lakesweep.collector.lakefs.search import Found, Hunt
from lakesweep.collector.lease import Lease
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan, mark_exists, save_plan, write_mark
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.domain.cutoff import Cutoff, decide_cutoff
from lakesweep.domain.durations import format_time
from lakesweep.domain.verdicts import Tally, Totals, Verdict
from lakesweep.errors import ConfigError, UnsafeToSweepError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Marked:
    """A finished mark: its record and its plan."""

    record: RunRecord
    plan: Plan


def mark(context: RunContext, request: MarkRequest, lease: Lease) -> Marked:
    """Find the garbage and write the plan, under the lease that the caller holds."""
    started_at = context.clock()
    with failure_on_record(context, request, started_at) as attempt:
        return _mark(context, request, lease, started_at, attempt)


def _mark(
    context: RunContext,
    request: MarkRequest,
    lease: Lease,
    started_at: datetime,
    attempt: Attempt,
) -> Marked:
    refuse_blind_listing(context, request.what)
    refuse_shared_namespace(context)
    if request.mark_id is not None:
        _refuse_used_mark(context, parse_mark_id(request.mark_id))
    cutoff = fix_cutoff(context, request, lease)
    now = _reference_time(request, started_at)
    context.engine.begin()
    canaries = take_canaries(context)
    live = read_live(context, Roots(request.keep_refs, request.keep_tags), now)
    run_id = attempt.run_id = RunId(live.staged.run_id)
    mark_id = MarkId(request.mark_id or run_id)
    _refuse_used_mark(context, mark_id)

    hunt = Hunt(context, request, live, run_id, cutoff)
    found = hunt.run(tuple(c.address for c in canaries))
    refuse_dead_canaries(context, canaries, found.judged.dead_canaries)
    with context.phases.phase("verify") as step:
        reuploads = find_reuploads(context, live, found.suspects, SearchedRanges())
        split = split_garbage(context, reuploads, found.garbage, RunFolder(run_id).verdicts)
        step.items = len(canaries)
        step.said = (
            f"{len(canaries)} canaries live, {tally_of(split.read).objects} re-uploads kept, "
            f"{tally_of(split.undecided).objects} undecided"
        )

    with context.phases.phase("plan") as step:
        totals = found.totals(split)
        totals.assert_conserved(f"the listing of {context.name}")
        plan = _write_plan(context, request, run_id, mark_id, cutoff, found, split.garbage, totals)
        step.items = plan.garbage.objects
        step.said = f"{plan.garbage.objects} objects, {plan.garbage.bytes} bytes"
    record = _record(context, request, live, plan, found, split, totals, started_at)
    record = replace(record, phases=tuple(context.phases.done), finished_at=context.clock())
    save_range_index(
        context.store, run_id, {r: pack for r, (pack, _) in found.judged.packs.items()}
    )
    saved = hunt.saved(found, split.kept)
    if saved is not None:
        save_for_sweep(context.store, saved)
    _write_report(context, record)
    context.store.write(RunFolder(run_id).record, encode_record(record))
    context.phases.saved_record = record
    return Marked(record, plan)


def refuse_blind_listing(context: RunContext, what: What) -> None:
    """Uncommitted data is left alone where the server does not tell of all of it."""
    if what is not What.COMMITTED and not context.profile.lists_linked_objects:
        raise UnsafeToSweepError(
            f"The server of {context.name} keeps its data in local files, where its uncommitted list leaves out linked objects: "
            "they would look like garbage. Nothing was deleted. `--what committed` is safe there.",
            kind="local-store",
        )


def _refuse_used_mark(context: RunContext, mark_id: MarkId) -> None:
    if mark_exists(context.store, mark_id):
        raise ConfigError(
            f"The mark id {mark_id!r} is in use in {context.name}. Nothing was touched. Choose another one.",
            kind="mark-id-used",
        )


def fix_cutoff(context: RunContext, request: MarkRequest, lease: Lease) -> Cutoff:
    """Before anything is read, by the store's clock, which dates the objects."""
    store_time = lease.store_time or context.clock()
    grace = context.client.grace_period()
    compare_clocks(context, store_time)
    return decide_cutoff(
        store_time,
        grace,
        requested_min_age=request.min_age,
        allow_lower=request.allow_lower_min_age,
        margins=context.margins,
    )


def _reference_time(request: MarkRequest, started_at: datetime) -> datetime:
    if request.now is None:
        return started_at
    if request.now > started_at:
        raise ConfigError(
            f"--now {format_time(request.now)} is in the future, where more would have expired. Nothing was touched.",
            kind="bad-now",
        )
    return request.now


def _write_plan(
    context: RunContext,
    request: MarkRequest,
    run_id: RunId,
    mark_id: MarkId,
    cutoff: Cutoff,
    found: Found,
    garbage: list[Part],
    totals: Totals,
) -> Plan:
    tally = Tally(sum(p.rows for p in garbage), sum(p.bytes for p in garbage))
    live = totals.live if totals.listed.objects else found.judged.live
    files = write_mark(context.store, mark_id, garbage)
    if totals.listed.objects and tally != totals.garbage:
        raise UnsafeToSweepError(
            f"{totals.garbage} of {context.name} are garbage, but {tally} are in the plan. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    plan = Plan(
        repository=context.name,
        namespace=context.store.root.uri,
        run_id=run_id,
        mark_id=mark_id,
        what=request.what.value,
        cutoff=cutoff.at,
        live=live,
        garbage=tally,
        keep_refs=request.keep_refs,
        keep_tags=request.keep_tags,
        min_age_seconds=cutoff.min_age.total_seconds(),
        is_min_age_lowered=cutoff.is_lowered,
        files=files,
    )
    save_plan(context.store, plan)
    return plan


def _record(
    context: RunContext,
    request: MarkRequest,
    live: LiveRead,
    plan: Plan,
    found: Found,
    split: SplitGarbage,
    totals: Totals,
    started_at: datetime,
) -> RunRecord:
    tallies = found.judged.tallies
    old, old_expired = (found.dated.get(v, Tally()) for v in (dating.OLD, dating.EXPIRED))
    counted = {
        "listed": found.listed.listed if found.listed else Tally(),
        "live": totals.live if totals.listed.objects else tallies[Verdict.LIVE],
        "young": tallies[Verdict.YOUNG] + found.dated.get(dating.YOUNG, Tally()),
        "protected": (found.listed.protected if found.listed else Tally())
        + tallies[Verdict.PROTECTED],
        "undecided": tally_of(split.undecided),
        "garbage": plan.garbage,
        "expired": tallies[Verdict.EXPIRED] + old_expired,
        "unreferenced": totals.unreferenced
        if totals.listed.objects
        else tallies[Verdict.UNREFERENCED] + old - tally_of(split.kept),
    }
    rules = live.rules
    record = RunRecord(
        repository=context.name,
        run_id=plan.run_id,
        mark_id=plan.mark_id,
        plan_id=plan.id,
        what=request.what.value,
        flow=found.flow.value,
        status=_status(plan, split),
        started_at=started_at,
        cutoff=plan.cutoff,
        min_age_seconds=plan.min_age_seconds,
        min_age_lowered=plan.is_min_age_lowered,
        last_slice=_last_slice(found),
        rules={
            "default_retention_days": rules.default_retention_days,
            "branches": [
                {"branch_id": b, "retention_days": d}
                for b, d in sorted(rules.branch_retention_days.items())
            ],
        }
        if rules is not None
        else {},
        retained_commits=len(live.retained),
        expired_commits=len(live.expired),
        mark=context.store.root.child(mark_folder(plan.mark_id)).uri,
        versions=versions(context),
        notes=(*live.notes, *found.notes, *split.notes),
        protected=found.protected_names,
    )
    return record.counted(
        {name: tally.objects for name, tally in counted.items()},
        {name: tally.bytes for name, tally in counted.items()},
    )


def _status(plan: Plan, split: SplitGarbage) -> RunStatus:
    if plan.garbage.objects:
        return RunStatus.MARKED
    return RunStatus.UNDECIDED if split.undecided else RunStatus.NOTHING_TO_DO


def _last_slice(found: Found) -> str:
    if found.slices is None or not found.slices.slices:
        return ""
    return found.slices.slices[-1].rstrip("/").rsplit("/", 1)[-1]


def versions(context: RunContext) -> dict[str, str]:
    """What took part in a run."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"server": context.profile.version}
    for package in ("lakesweep", "pyspark", "pyarrow", "obstore"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _write_report(context: RunContext, record: RunRecord) -> None:
    """The seeds' report beside the server's list: when the run started, the last slice it read, and what it counted."""
    report = {
        "run_id": record.run_id,
        "start_time": format_time(record.started_at),
        "cutoff_time": format_time(record.cutoff) if record.cutoff else None,
        "last_slice": record.last_slice,
        "objects": dict(record.objects),
        "bytes": dict(record.bytes),
    }
    context.store.write(
        RunFolder(RunId(record.run_id)).report, json.dumps(report, indent=2).encode()
    )
