"""Mark a repository: what the shared mark asks of it, the plan, and the record."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.collector.garbage_sums import save_summary
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.canaries import judged_canaries, take_canaries
from lakesweep.collector.lakefs.clocks import compare_clocks
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.failed_marks import Attempt, failure_on_record
from lakesweep.collector.lakefs.live import LiveRead, Roots, read_live
from lakesweep.collector.lakefs.marks import mark_exists, save_plan, write_mark
from lakesweep.collector.lakefs.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.paths import RunFolder, mark_folder, parse_mark_id
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.lakefs.reuploads import (
    SearchedRanges,
    SplitGarbage,
    find_reuploads,
    split_garbage,
)
from lakesweep.collector.lakefs.saved import save_for_sweep, save_range_index
from lakesweep.collector.lakefs.search import RepositoryFound, Search
from lakesweep.collector.lease import Lease
from lakesweep.collector.mark import Found, Garbage, Settled, find_garbage
from lakesweep.collector.parts import tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.commit_summary import CommitSummary, summarise_commits
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
    now = reference_time(request.now, started_at)
    context.engine.begin()
    run = _RepositoryMark(context, request, cutoff, now, attempt)
    garbage = find_garbage(run, context.phases)

    with context.phases.phase("plan") as step:
        plan = _write_plan(context, request, run.mark_id, cutoff, garbage, run)
        step.handled(plan.garbage)
        step.said = f"{plan.garbage.objects} objects, {plan.garbage.bytes} bytes"
    files, parts = RunFolder(plan.run_id), garbage.settled.garbage
    save_summary(context.resources, files.summary, parts, run.commits)
    record = _record(context, request, run, plan, garbage.totals, started_at)
    record = replace(record, phases=tuple(context.phases.done), finished_at=context.clock())
    run.leave_for_the_next()
    _write_report(context, record)
    context.store.write(files.record, encode_record(record))
    context.phases.saved_record = record
    return Marked(record, plan)


class _RepositoryMark:
    """What a repository answers to a mark, and what the mark learns on its way."""

    live: LiveRead
    found: RepositoryFound
    split: SplitGarbage
    run_id: RunId
    mark_id: MarkId

    def __init__(
        self,
        context: RunContext,
        request: MarkRequest,
        cutoff: Cutoff,
        now: datetime,
        attempt: Attempt,
    ) -> None:
        self._context = context
        self._request = request
        self._cutoff = cutoff
        self._now = now
        self._attempt = attempt

    @property
    def name(self) -> str:
        return self._context.name

    def search(self) -> RepositoryFound:
        """Pending, staged, copies, commits, ranges, in this order; the listing comes after, and only old objects count."""
        request = self._request
        canaries = judged_canaries(self._context, take_canaries(self._context))
        roots = Roots(request.keep_refs, request.keep_tags)
        self.live = read_live(self._context, roots, self._now)
        self.run_id = self._attempt.run_id = RunId(self.live.staged.run_id)
        self.mark_id = MarkId(request.mark_id or self.run_id)
        _refuse_used_mark(self._context, self.mark_id)
        self._search = Search(self._context, request, self.live, self.run_id, self._cutoff)
        self.found = self._search.run(canaries)
        return self.found

    def settle(self, found: Found) -> Settled:
        """Staged re-uploads that a real server does not list are live; what can't be looked up is kept."""
        reuploads = find_reuploads(self._context, self.live, self.found.suspects, SearchedRanges())
        folder = RunFolder(self.run_id).verdicts
        self.split = split_garbage(self._context, reuploads, found.garbage, folder)
        return Settled(self.split.garbage, self.split.read, self.split.undecided)

    def commits(self) -> CommitSummary:
        """All commits in short, for reports."""
        refs = self.live.refs
        return summarise_commits(refs.graph, self.live.retained, refs.heads, refs.tags)

    def leave_for_the_next(self) -> None:
        """What the next run may build on: where the hashes of ranges are, and what is young or undecided."""
        store, packs = self._context.store, self.found.judged.packs
        save_range_index(store, self.run_id, {r: pack for r, (pack, _) in packs.items()})
        saved = self._search.saved(self.found, self.split.kept)
        if saved is not None:
            save_for_sweep(store, saved)


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


def reference_time(wanted: datetime | None, started_at: datetime) -> datetime:
    """The time that days are counted back from."""
    if wanted is None:
        return started_at
    if wanted > started_at:
        raise ConfigError(
            f"--now {format_time(wanted)} is in the future, where more would have expired. Nothing was touched.",
            kind="bad-now",
        )
    return wanted


def _write_plan(
    context: RunContext,
    request: MarkRequest,
    mark_id: MarkId,
    cutoff: Cutoff,
    garbage: Garbage,
    run: _RepositoryMark,
) -> Plan:
    is_full = garbage.found.listed is not None
    plan = Plan(
        repository=context.name,
        namespace=context.store.root.uri,
        run_id=run.run_id,
        mark_id=mark_id,
        what=request.what.value,
        cutoff=cutoff.at,
        live=garbage.totals.live if is_full else garbage.found.judged.live,
        garbage=garbage.tally,
        keep_refs=request.keep_refs,
        keep_tags=request.keep_tags,
        min_age_seconds=cutoff.min_age.total_seconds(),
        is_min_age_lowered=cutoff.is_lowered,
        files=write_mark(context.store, mark_id, garbage.settled.garbage),
    )
    save_plan(context.store, plan)
    return plan


def _record(
    context: RunContext,
    request: MarkRequest,
    run: _RepositoryMark,
    plan: Plan,
    totals: Totals,
    started_at: datetime,
) -> RunRecord:
    live, found, split = run.live, run.found, run.split
    tallies, is_full = found.judged.tallies, found.listed is not None
    old, old_expired = (found.dated.get(v, Tally()) for v in (dating.OLD, dating.EXPIRED))
    counted = {
        "listed": found.listing.listed if found.listing else Tally(),
        "live": totals.live if is_full else tallies[Verdict.LIVE],
        "young": tallies[Verdict.YOUNG] + found.dated.get(dating.YOUNG, Tally()),
        "protected": found.never_candidates + tallies[Verdict.PROTECTED],
        "undecided": tally_of(split.undecided),
        "garbage": plan.garbage,
        "expired": tallies[Verdict.EXPIRED] + old_expired,
        "unreferenced": totals.unreferenced
        if is_full
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
        oldest_garbage=found.judged.oldest_garbage if plan.garbage.objects else None,
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


def _last_slice(found: RepositoryFound) -> str:
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
