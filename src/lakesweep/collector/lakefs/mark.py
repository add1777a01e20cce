"""Mark a repository: what the shared mark asks of it, the plan, and the record."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from lakesweep.catalogs.lakefs.history_summary import summarise_history
from lakesweep.collector import guards
from lakesweep.collector.garbage_sums import save_summary
from lakesweep.collector.inventory.opening import check_time, open_inventory
from lakesweep.collector.inventory.values import Inventory
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.between_runs.known_heads import KNOWN_HEADS, save_known_heads
from lakesweep.collector.lakefs.between_runs.saved import forget_last_run, save_for_sweep
from lakesweep.collector.lakefs.checks.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.checks.reuploads import undecided_notes
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.marks import refuse_used_mark, save_plan, write_mark
from lakesweep.collector.lakefs.paths import RunFolder, mark_folder, parse_mark_id
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.lakefs.search import RepositorySearch
from lakesweep.collector.lakefs.slices import slice_name
from lakesweep.collector.lease import Lease
from lakesweep.collector.mark import Garbage, Settled, find_garbage
from lakesweep.collector.parts import tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import RunId
from lakesweep.collector.unfinished import unfinished_record
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.durations import format_time
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    UnsafeToSweepError,
    foreign_errors_as_ours,
)
from lakesweep.formats.xid import new_xid
from lakesweep.storage import ObjectStore


def mark(context: RunContext, request: MarkRequest, lease: Lease) -> tuple[RunRecord, Plan]:
    """Find the garbage and write the plan, under the lease that the caller holds. A mark that fails leaves a record too."""
    repository, resources = context.repository, context.resources
    started_at = resources.clock()
    # These resources may have seen another run, and its record is not that of this one.
    resources.phases.saved_record = None
    search: RepositorySearch | None = None
    try:
        with foreign_errors_as_ours("Nothing was deleted."):
            refuse_idle_inventory(request)
            refuse_blind_listing(repository, request.what)
            refuse_shared_namespace(repository, resources.target, resources.margins.clock_skew)
            # Asked once more when the mark has its id; here, it costs nobody the minutes until then.
            if request.mark_id is not None:
                refuse_used_mark(resources.store, repository.name, parse_mark_id(request.mark_id))
            cutoff = fix_cutoff(context, request, lease)
            now = reference_time(request.now, started_at)
            inventory = _opened_inventory(resources, request, cutoff)
            search = RepositorySearch(repository, resources, request, cutoff, now, inventory)
            search.decide_flow()
            resources.engine.begin(search.least_seconds())
            return _find_and_plan(search, started_at)
    except ConfigError:
        raise  # what was asked for can't be had, and its message says that nothing was touched
    except (LakesweepError, KeyboardInterrupt) as error:
        run_id = search.run_id if search is not None else ""
        _record_failure(resources, request, run_id, started_at, error)
        raise


def _find_and_plan(search: RepositorySearch, started_at: datetime) -> tuple[RunRecord, Plan]:
    resources = search.resources
    garbage = find_garbage(search, resources.phases)
    with resources.phases.phase("plan") as step:
        plan = _write_plan(search, garbage)
        step.handled(plan.garbage)
        step.said = f"{plan.garbage.objects} objects, {plan.garbage.bytes} bytes"
    live, parts = search.live, garbage.settled.garbage
    refs = live.refs
    commits = partial(summarise_history, refs.graph, live.is_retained, refs.heads, refs.tags)
    save_summary(resources, search.folder.summary, parts, commits)
    record = _record(search, garbage, plan, started_at)
    record = resources.ended(record, record.status)
    if search.found.slices is not None:  # a run over committed data leaves nothing to the next
        kept = [*search.found.young, *garbage.settled.kept]
        save_for_sweep(resources.store, search.saved(search.found.slices, kept))
    if resources.store.find(KNOWN_HEADS) is None:
        # Commits were given up, and the last swept run knows their objects as live. This one may never be swept.
        forget_last_run(resources.store)
    save_known_heads(resources.store, refs.heads, started_at)
    _write_report(resources.store, record)
    # Last: by its record a sweep knows that the mark was finished.
    resources.store.write(search.folder.record, encode_record(record))
    resources.phases.saved_record = record
    return record, plan


def _record_failure(
    resources: Resources,
    request: MarkRequest,
    run_id: str,
    started_at: datetime,
    error: LakesweepError | KeyboardInterrupt,
) -> None:
    """Write down what a mark was asked, how far it came, and why it ended.

    Such a record names no plan, and by that a sweep tells it from the record of a finished mark.
    """
    record = unfinished_record(
        resources.name,
        error,
        phases=resources.phases,
        started_at=started_at,
        finished_at=resources.clock(),
        what=request.what.value,
        flow=request.flow.value,
        mark_id=request.mark_id or "",
    )
    # The server may not have given an id yet.
    run_id = run_id or f"mark-{new_xid(started_at)}"
    key = RunFolder(RunId(run_id)).record
    resources.save_record_if_possible(key, replace(record, run_id=run_id))


def _write_plan(search: RepositorySearch, garbage: Garbage) -> Plan:
    """The plan, made durable with the mark's files."""
    store, request, cutoff = search.resources.store, search.request, search.cutoff
    is_full = garbage.found.listed is not None
    plan = Plan(
        repository=search.name,
        namespace=store.root.uri,
        run_id=search.run_id,
        mark_id=search.mark_id,
        what=request.what.value,
        cutoff=cutoff.at,
        live=garbage.totals.live if is_full else garbage.found.judged.live,
        garbage=garbage.tally,
        keep_refs=request.keep_refs,
        keep_tags=request.keep_tags,
        min_age_seconds=cutoff.min_age.total_seconds(),
        is_min_age_lowered=cutoff.is_lowered,
        files=write_mark(store, search.mark_id, garbage.settled.garbage),
    )
    save_plan(store, plan)
    return plan


def _record(
    search: RepositorySearch, garbage: Garbage, plan: Plan, started_at: datetime
) -> RunRecord:
    """What the mark was asked, and what it found."""
    live, found, totals, settled = search.live, search.found, garbage.totals, garbage.settled
    tallies, is_full = found.judged.tallies, found.listed is not None
    unreferenced = tallies[Verdict.UNREFERENCED] + found.dated.tally(dating.OLD)
    counted = {
        "listed": found.listing.listed if found.listing else Tally(),
        "live": totals.live if is_full else tallies[Verdict.LIVE],
        "young": tallies[Verdict.YOUNG] + found.dated.tally(dating.YOUNG),
        "protected": found.never_candidates + tallies[Verdict.PROTECTED],
        "undecided": tally_of(settled.undecided),
        "rewritten": found.rewritten,
        "vanished": found.vanished,
        "garbage": plan.garbage,
        "expired": tallies[Verdict.EXPIRED] + found.dated.tally(dating.EXPIRED),
        "unreferenced": totals.unreferenced if is_full else unreferenced - tally_of(settled.kept),
    }
    slices = found.slices.slices if found.slices is not None else ()
    undecided = undecided_notes(settled.undecided, settled.reasons)
    return RunRecord(
        repository=plan.repository,
        run_id=plan.run_id,
        mark_id=plan.mark_id,
        plan_id=plan.id,
        what=plan.what,
        flow=search.flow.value,
        status=_status(plan, settled),
        started_at=started_at,
        cutoff=plan.cutoff,
        min_age_seconds=plan.min_age_seconds,
        min_age_lowered=plan.is_min_age_lowered,
        last_slice=slice_name(slices[-1]) if slices else "",
        oldest_garbage=found.judged.oldest_garbage if plan.garbage.objects else None,
        rules=live.rules.as_json() if live.rules is not None else {},
        retained_commits=live.retained_commits,
        expired_commits=live.expired_commits,
        mark=search.resources.store.root.child(mark_folder(plan.mark_id)).uri,
        versions=_versions(search.repository.profile.version),
        notes=(*live.notes, *search.notes, *undecided),
        protected=found.protected_names,
        inventory=found.inventory,
    ).tallied(counted)


def refuse_idle_inventory(request: MarkRequest) -> None:
    """Refuse an inventory for a run that lists nothing, or little: it could only take the place of a full listing."""
    if request.inventory is None:
        return
    if request.what is What.COMMITTED or request.flow is Flow.OPTIMIZED:
        asked = "--what committed" if request.what is What.COMMITTED else "--run optimized"
        raise ConfigError(
            f"--inventory takes the place of a full listing, and {asked} makes none. Nothing was touched. Leave one of "
            "them out.",
            kind="idle-inventory",
        )


def _opened_inventory(
    resources: Resources, request: MarkRequest, cutoff: Cutoff
) -> Inventory | None:
    if request.inventory is None:
        return None
    inventory = open_inventory(resources.target, request.inventory)
    check_time(inventory, cutoff.reference_time, request.max_inventory_age)
    return inventory


def refuse_blind_listing(repository: LakeFSRepository, what: What) -> None:
    """Refuse to collect uncommitted data of a server that does not tell of all of it."""
    if what is not What.COMMITTED and not repository.profile.lists_linked_objects:
        raise UnsafeToSweepError(
            f"The server of {repository.name} keeps its data in local files, where its uncommitted list leaves out linked objects: "
            "they would look like garbage. Nothing was deleted. `--what committed` is safe there.",
            kind="local-store",
        )


def fix_cutoff(context: RunContext, request: MarkRequest, lease: Lease) -> Cutoff:
    """The cut-off of a mark, fixed before anything is read, by the store's clock, which also dates the objects."""
    repository, clock, margins = (
        context.repository,
        context.resources.clock,
        context.resources.margins,
    )
    store_time = lease.store_time or clock()
    guards.compare_clocks(store_time, repository.clock_readings(store_time), clock, margins)
    return repository.cutoff(
        store_time, request.min_age, margins, allow_lower=request.allow_lower_min_age
    )


def reference_time(wanted: datetime | None, started_at: datetime) -> datetime:
    """The time that retention days are counted back from: the user's `--now`, else the start of the run."""
    if wanted is None:
        return started_at
    if wanted > started_at:
        raise ConfigError(
            f"--now {format_time(wanted)} is in the future, where more would have expired. Nothing was touched.",
            kind="bad-now",
        )
    return wanted


def _status(plan: Plan, settled: Settled) -> RunStatus:
    if plan.garbage.objects:
        return RunStatus.MARKED
    return RunStatus.UNDECIDED if settled.undecided else RunStatus.NOTHING_TO_DO


def _versions(server: str) -> dict[str, str]:
    """The versions of the server and of our packages, for the record."""
    found = {"server": server}
    for package in ("lakesweep", "pyspark", "pyarrow", "obstore"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _write_report(store: ObjectStore, record: RunRecord) -> None:
    """The seeds' report beside the server's list: when the run started, the last slice it read, and what it counted."""
    report = {
        "run_id": record.run_id,
        "start_time": format_time(record.started_at),
        "cutoff_time": format_time(record.cutoff) if record.cutoff else None,
        "last_slice": record.last_slice,
        "objects": dict(record.objects),
        "bytes": dict(record.bytes),
    }
    store.write(RunFolder(RunId(record.run_id)).report, json.dumps(report, indent=2).encode())
