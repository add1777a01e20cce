"""Expire: find the files that no live content refers to, and delete them or record them for later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector import guards
from lakesweep.collector.garbage_sums import save_summary
from lakesweep.collector.lease import Lease
from lakesweep.collector.mark import find_garbage
from lakesweep.collector.nessie.ages import newest_to_go
from lakesweep.collector.nessie.base_spelling import BaseSpelling
from lakesweep.collector.nessie.collected_places import first_few
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folder_sums import tables_in
from lakesweep.collector.nessie.identify import said_of, save_failure
from lakesweep.collector.nessie.listing import FILE_SCHEMA, FoundTable
from lakesweep.collector.nessie.live_catalog import LiveCatalog
from lakesweep.collector.nessie.mark import FilesFound, MarkedLiveSet
from lakesweep.collector.nessie.opening import LiveSetRun, open_live_set
from lakesweep.collector.nessie.records import (
    DEFERRED,
    find_plan,
    find_record,
    new_record,
    save_plan,
    with_notices,
    with_verdicts,
)
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.set_files import has_files
from lakesweep.collector.nessie.sweep import SweptLiveSet
from lakesweep.collector.parts import Part, read_part
from lakesweep.collector.plan import Plan, planned_files, planned_parts
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.unfinished import kind_of
from lakesweep.domain.live_sets import (
    DeferredFile,
    LiveSetStatus,
    deferred_file,
)
from lakesweep.domain.verdicts import Verdict
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    PartlySweptError,
    UnsafeToSweepError,
    foreign_errors_as_ours,
)
from lakesweep.progress import human_count

_NAMED_AT_MOST = 20


def expire(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None = None
) -> RunRecord:
    """Run an expiry, or go on with one that was interrupted. With a client, Nessie is asked again before each delete.

    Raises:
        UnsafeToSweepError: doubt; nothing was deleted, and the set says why.
        PartlySweptError: some was deleted and some is left; the same command goes on.
    """
    opened = open_live_set(context, request, client, "expire")
    live_sets, live_set, clock = opened.live_sets, opened.live_set, opened.resources.clock
    is_again = live_set.status is not LiveSetStatus.IDENTIFY_SUCCESS and _may_go_on(opened)
    lease = opened.lease(f"expiry of {live_set.id}")
    with ExitStack() as held:
        if is_again:
            # Whoever works on this set now is noticed before its status is touched.
            held.enter_context(lease)
        live_sets.start_expire(live_set.id, clock(), again=is_again, work=context.work_location.uri)
        run = _Expiry(opened)
        try:
            with foreign_errors_as_ours("No further file was deleted."):
                live = run.read_live_catalog()
                if not is_again:
                    # Only now it is known that our own folder lies below no table.
                    held.enter_context(lease)
                run.compare_clocks(live, lease)
                record = run.run(live, lease, is_again=is_again)
        except BaseException as error:
            run.fail(error)
            raise
        run.finish(record)
    return record


def _may_go_on(opened: LiveSetRun) -> bool:
    """Whether an expiry that did not finish may be taken up: it failed, or it is ours and its process is gone."""
    live_set, store = opened.live_set, opened.resources.store
    if live_set.status is LiveSetStatus.EXPIRY_FAILED:
        return True
    if live_set.status is not LiveSetStatus.EXPIRY_IN_PROGRESS:
        return False
    # A process that died before it had written anything here has deleted nothing.
    begun_from = opened.live_sets.work_of(live_set.id)
    if begun_from != store.root.uri and not has_files(store, live_set.id):
        raise ConfigError(
            f"Live set {live_set.id} is being expired from {begun_from or 'elsewhere'}, and not from the work location "
            f"{store.root.uri}: by another process, or by one that died. Nothing was touched. Give that process's "
            "--work-location to go on, or mark again.",
            kind="wrong-status",
        )
    return True


class _Expiry:
    """One expiry under way."""

    def __init__(self, opened: LiveSetRun) -> None:
        self._opened = opened
        self._resources, self._live_sets = opened.resources, opened.live_sets
        self._request = request = opened.request
        self._live_set = live_set = opened.live_set
        self._folder = opened.folder
        self._cutoff, more = newest_to_go(live_set, opened.facts, request)
        flow = DEFERRED if request.defer else "immediate"
        started_at = self._resources.clock()
        record = new_record(live_set, opened.facts, flow, self._cutoff, started_at)
        if request.max_file_modification is None:
            record = replace(record, min_age_seconds=request.least_age.total_seconds())
        self._record = record.noted(*opened.notes, *more)
        self._is_place_checked = False

    def read_live_catalog(self) -> LiveCatalog:
        """What is live; refuses what can't be read, and a work location that a table owns."""
        found = self._opened.read_live_catalog()
        self._is_place_checked = self._resources.phases.may_write_reports = True
        self._record = with_notices(self._record, found)
        self._live_sets.add_base_locations(
            self._live_set.id,
            ((owner, f"{base.rstrip('/')}/") for owner, base in found.folders.base_locations()),
        )
        return found

    def compare_clocks(self, found: LiveCatalog, lease: Lease) -> None:
        """Refuse to judge ages, or to tell an authority's end, by clocks that are minutes apart."""
        now = lease.store_now()
        readings = self._opened.clock_readings(found, now)
        guards.compare_clocks(now, readings, self._resources.clock, self._resources.margins)

    def run(self, found: LiveCatalog, lease: Lease, *, is_again: bool) -> RunRecord:
        """List, judge, and record or delete; or go on with a plan."""
        plan = self._plan_to_go_on_with() if is_again and not self._request.defer else None
        if plan is not None:
            return self._sweep_again(plan, found, lease)
        garbage = self._find_garbage(found)
        if self._request.defer:
            return self._defer(garbage, found)
        return self._sweep(garbage, found, lease)

    def finish(self, record: RunRecord) -> None:
        """Say in the set that it is expired. Where that can't be stored, what was deleted is told all the same."""
        try:
            self._live_sets.finish_expire(self._live_set.id, self._resources.clock())
        except LakesweepError as error:
            if not record.objects["deleted"]:
                raise
            deleted = human_count(record.objects["deleted"], "files")
            said = (
                f"The expiry is done ({deleted} deleted), but the live set does not say so: {error.message} "
                f"`{self._opened.reader.command}` goes on."
            )
            ended = replace(record, status=RunStatus.PARTLY_SWEPT, reason=said, kind=error.kind)
            self._resources.save_record_if_possible(self._folder.record, ended)
            raise PartlySweptError(said, kind=error.kind) from error

    def fail(self, error: BaseException) -> None:
        """Say in the set and, where our own folder can be trusted, in the record, why it ended."""
        said = said_of(error)
        saved = self._resources.phases.saved_record
        if saved is not None and saved.finished_at is not None:
            said = saved.reason  # a sweep has said itself how it ended
        elif self._is_place_checked:
            self._save_failed(error, saved or self._record, said)
        if isinstance(error, LakesweepError) and error.kind == "lease-held":
            return  # another process has taken this set up, and its status is that one's
        at = self._resources.clock()
        save_failure(self._live_sets.fail_expire, self._live_set.id, at, said)

    def _save_failed(self, error: BaseException, last: RunRecord, said: str) -> None:
        status = RunStatus.FAILED
        if last.status is RunStatus.PARTLY_SWEPT:
            # What deletes under way, or an earlier, interrupted expiry of this set deleted stays true.
            status = last.status
        elif isinstance(error, UnsafeToSweepError):
            status = RunStatus.REFUSED
        ended = self._resources.ended(last, status, said, kind_of(error))
        self._resources.save_record_if_possible(self._folder.record, ended)

    def _find_garbage(self, live: LiveCatalog) -> FilesFound:
        catalog = MarkedLiveSet(self._resources.target, self._folder, live, self._cutoff)
        found = find_garbage(catalog, self._resources.phases).found
        assert isinstance(found, FilesFound)
        save_summary(self._resources, self._folder.summary, found.garbage)
        self._record = with_notices(self._record, live)
        self._record = self._record.noted(*_named(live.folders.unknown_tables(found.tables)))
        self._record = with_verdicts(self._record, found)
        return found

    def _defer(self, garbage: FilesFound, found: LiveCatalog) -> RunRecord:
        with self._resources.phases.phase("record") as step:
            self._live_sets.clear_deferred(self._live_set.id)
            spelling = BaseSpelling(found.folders.bases)
            files = self._deferred_files(garbage.garbage, spelling)
            step.items = self._live_sets.add_deferred(self._live_set.id, files)
            step.said = f"{human_count(step.items, 'files')} recorded for a later delete"
        found_files = garbage.judged.garbage_tally.objects
        if step.items != found_files:
            raise UnsafeToSweepError(
                f"{found_files} files were to be recorded, {step.items} have been. Nothing was deleted.",
                kind="not-conserved",
            )
        status = RunStatus.MARKED if step.items else RunStatus.NOTHING_TO_DO
        record = self._resources.ended(self._record, status)
        if step.items:
            record = record.noted(
                f"{human_count(step.items, 'files')} recorded for a later delete. `list-deferred` shows the list, "
                "`deferred-deletes` deletes what is on it"
            )
        self._resources.save_record(self._folder.record, record)
        return record

    def _deferred_files(self, parts: list[Part], spelling: BaseSpelling) -> Iterator[DeferredFile]:
        for part in parts:
            for batch in read_part(self._resources.store.read(part.key), FILE_SCHEMA, part.key):
                modified = batch.column("last_modified").to_pylist()
                for uri, at in zip(batch.column("uri").to_pylist(), modified, strict=True):
                    base, spelled = spelling.of(uri)
                    yield deferred_file(base, spelled, at)

    def _plan_to_go_on_with(self) -> Plan | None:
        """The plan of an earlier, unfinished expiry: begun already, or confirmed now."""
        earlier = find_record(self._resources.store, self._live_set.id)
        # One that came to its end, and could not say so in the set, has begun, too.
        begun = (RunStatus.PARTLY_SWEPT, RunStatus.SWEPT)
        has_begun = earlier is not None and earlier.status in begun
        if has_begun:
            self._record = replace(self._record, status=RunStatus.PARTLY_SWEPT)
        plan = find_plan(self._resources.store, self._live_set.id)
        if self._request.confirm is not None:
            if plan is None or plan.id != self._request.confirm:
                raise ConfigError(
                    f"--confirm {self._request.confirm}: live set {self._live_set.id} has "
                    f"{f'plan {plan.id}' if plan else 'no plan'} in {self._resources.store.root.uri}. Nothing was deleted.",
                    kind="other-plan",
                )
            return plan
        if plan is not None and has_begun and earlier is not None:
            self._record = replace(
                self._record,
                objects=earlier.objects,
                bytes=earlier.bytes,
                protected=earlier.protected,
            ).noted("continues an earlier expiry of this set")
            return plan
        return None

    def _sweep(self, garbage: FilesFound, found: LiveCatalog, lease: Lease) -> RunRecord:
        parts = garbage.garbage
        plan = save_plan(
            self._resources.store,
            self._live_set.id,
            self._record.repository,
            self._cutoff,
            garbage.judged.tallies[Verdict.LIVE],
            planned_files(self._resources.store, parts),
        )
        swept = SweptLiveSet(
            self._opened, found, plan, self._cutoff, parts, garbage.tables, is_judged=True
        )
        return swept.sweep(self._record, lease, confirm=None)

    def _sweep_again(self, plan: Plan, found: LiveCatalog, lease: Lease) -> RunRecord:
        """Go on with a plan that the user confirms now, or that was confirmed when its deletes began."""
        parts = planned_parts(self._resources.store, plan)
        # Others may have made tables of planned files since they were listed.
        tables = tables_in(self._opened.reader.table_reader, found.folders.roots)
        swept = SweptLiveSet(self._opened, found, plan, self._cutoff, parts, tables)
        return swept.sweep(self._record, lease, confirm=plan.id)


def _named(tables: list[FoundTable]) -> Iterator[str]:
    """A note that names tables which are not this catalog's."""
    if tables:
        shown = first_few([f"{table.folder} ({table.kind})" for table in tables], _NAMED_AT_MOST)
        yield (
            f"{len(tables)} tables below base locations are not live in this catalog, and their files stay: "
            f"{shown}"
        )
