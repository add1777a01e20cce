"""Expire: find the files that no live content refers to, and delete them or record them for later."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.lakefs.context import refuse_long_requests
from lakesweep.collector.lease import Lease
from lakesweep.collector.nessie.ages import newest_to_go
from lakesweep.collector.nessie.base_spelling import BaseSpelling
from lakesweep.collector.nessie.catalog_now import CatalogNow
from lakesweep.collector.nessie.clocks import assert_stores_agree
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.nessie.folders import outermost
from lakesweep.collector.nessie.judging import FilesJudged, file_judge, judge_files
from lakesweep.collector.nessie.list_folders import FILE_SCHEMA, FoundTable
from lakesweep.collector.nessie.listing import Listed, list_base_folders
from lakesweep.collector.nessie.live_catalog import (
    LiveGrounds,
    read_grounds,
    read_newly_live,
    refuse_bad_manifests,
)
from lakesweep.collector.nessie.live_files import FULLER, LiveFiles
from lakesweep.collector.nessie.plan import find_plan, planned_parts, save_plan
from lakesweep.collector.nessie.records import (
    DEFERRED,
    NOT_REVERIFIED,
    find_record,
    finished,
    new_record,
    save_record,
    with_notices,
    with_places,
    with_sweep,
    with_verdicts,
)
from lakesweep.collector.nessie.references import ReferenceItem
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.same_catalog import assert_same_catalog
from lakesweep.collector.nessie.set_files import has_files
from lakesweep.collector.nessie.sweep import FileSweep, Swept, partly_swept, refuse_incomplete
from lakesweep.collector.parts import Part, read_part
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.domain.live_sets import (
    DeferredFile,
    LiveSet,
    LiveSetStatus,
    MarkFacts,
    deferred_file,
)
from lakesweep.domain.verdicts import Verdict
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    UnsafeToSweepError,
    foreign_errors_as_ours,
)

logger = logging.getLogger(__name__)

_NAMED_AT_MOST = 20


def expire(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None = None
) -> RunRecord:
    """Run an expiry, or go on with one that was interrupted. With a client, Nessie is asked again before each delete.

    Raises:
        UnsafeToSweepError: doubt; nothing was deleted, and the set says why.
        PartlySweptError: some was deleted and some is left; the same command goes on.
    """
    refuse_long_requests(context.storage, context.margins)
    context = replace(context, files_in_flight=request.files_in_flight)
    live_set = context.live_sets.get(request.live_set_id)
    facts = context.live_sets.facts(live_set.id)
    notes = []
    if client is not None:
        is_moved = request.is_catalog_moved
        notes = assert_same_catalog(client, context.live_sets, live_set, facts, is_moved=is_moved)
    is_again = live_set.status is not LiveSetStatus.IDENTIFY_SUCCESS and _may_go_on(
        context, live_set
    )
    purpose = f"expiry of {live_set.id}"
    lease = Lease(
        context.store,
        purpose,
        purpose,
        folder=SetFolder(live_set.id).root,
        process_tree=lambda: context.engine.process_tree,
    )
    with ExitStack() as held:
        if is_again:
            # Whoever works on this set now is noticed before its status is touched.
            held.enter_context(lease)
        context.live_sets.start_expire(
            live_set.id, context.clock(), again=is_again, work=context.work.uri
        )
        run = _Expiry(context, request, live_set, facts, client, notes)
        try:
            with foreign_errors_as_ours("No further file was deleted."):
                grounds = run.read_grounds()
                if not is_again:
                    # Only now it is known that our own folder lies below no table.
                    held.enter_context(lease)
                run.compare_clocks(grounds, lease)
                record = run.run(grounds, lease, is_again=is_again)
        except BaseException as error:
            run.fail(error)
            if isinstance(error, LakesweepError) and run.may_have_deleted:
                raise partly_swept(error, live_set) from error
            raise
        context.live_sets.finish_expire(live_set.id, context.clock())
    return record


def _may_go_on(context: NessieContext, live_set: LiveSet) -> bool:
    """Whether an expiry that did not finish may be taken up: it failed, or it is ours and its process is gone."""
    if live_set.status is LiveSetStatus.EXPIRY_FAILED:
        return True
    if live_set.status is not LiveSetStatus.EXPIRY_IN_PROGRESS:
        return False
    # A process that died before it had written anything here has deleted nothing.
    begun_from = context.live_sets.work_of(live_set.id)
    if begun_from != context.work.uri and not has_files(context.store, live_set.id):
        raise ConfigError(
            f"Live set {live_set.id} is being expired from {begun_from or 'elsewhere'}, and not from the work location "
            f"{context.work.uri}: by another process, or by one that died. Nothing was touched. Give that process's "
            "--work-location to go on, or mark again.",
            kind="wrong-status",
        )
    return True


class _Expiry:
    """One expiry under way."""

    def __init__(
        self,
        context: NessieContext,
        request: ExpireRequest,
        live_set: LiveSet,
        facts: MarkFacts | None,
        client: NessieClient | None,
        notes: Sequence[str],
    ) -> None:
        self._context = context
        self._request = request
        self._live_set = live_set
        self._facts = facts
        self._client = client
        self._folder = SetFolder(live_set.id)
        self._cutoff, more = newest_to_go(live_set, facts, request)
        flow = DEFERRED if request.defer else "immediate"
        self._record = new_record(context, live_set, facts, flow, self._cutoff).noted(*notes, *more)
        self._is_place_checked = False
        self._has_begun_before = False
        self._swept = Swept()

    @property
    def may_have_deleted(self) -> bool:
        """Whether a file may be gone by now."""
        return self._swept.may_have_deleted

    def read_grounds(self) -> LiveGrounds:
        """What is live; refuses what can't be read, and a work location that a table owns."""
        found = read_grounds(self._context, self._live_set, self._facts, self._request)
        self._is_place_checked = True
        self._record = with_notices(self._record, found.grounds.live)
        self._record = with_places(self._record, found.collected)
        self._context.live_sets.add_base_locations(
            self._live_set.id,
            ((owner, f"{base.rstrip('/')}/") for owner, base in found.grounds.base_locations()),
        )
        return found

    def compare_clocks(self, found: LiveGrounds, lease: Lease) -> None:
        """Refuse to judge ages, or to tell an authority's end, by clocks that are minutes apart."""
        bases = (base.location for base in found.grounds.bases)
        assert_stores_agree(self._context, lease, bases, self._client)

    def run(self, found: LiveGrounds, lease: Lease, *, is_again: bool) -> RunRecord:
        """List, judge, and record or delete; or go on with a plan."""
        plan = self._plan_to_go_on_with() if is_again and not self._request.defer else None
        if plan is not None:
            return self._sweep_again(plan, found, lease)
        listed, judged = self._judge(found)
        if self._request.defer:
            return self._defer(judged, found)
        return self._sweep(listed, judged, found, lease)

    def fail(self, error: BaseException) -> None:
        """Say in the set and, where our own folder can be trusted, in the record, why it ended."""
        said = (
            error.message
            if isinstance(error, LakesweepError)
            else f"{type(error).__name__}: {error}"
        )
        # What an earlier, interrupted expiry of this set deleted stays true as well.
        is_partly = self.may_have_deleted or self._has_begun_before
        status = RunStatus.PARTLY_SWEPT if is_partly else RunStatus.FAILED
        if isinstance(error, UnsafeToSweepError) and not is_partly:
            status = RunStatus.REFUSED
        try:
            if self._is_place_checked:
                record = self._record
                if self.may_have_deleted:
                    record = with_sweep(record, self._swept)
                save_record(self._context, finished(self._context, record, status, said))
        except LakesweepError as failure:
            logger.warning("set#%s its record could not be written: %s", self._live_set.id, failure)
        if isinstance(error, LakesweepError) and error.kind == "lease-held":
            return  # another process has taken this set up, and its status is that one's
        try:
            self._context.live_sets.fail_expire(self._live_set.id, self._context.clock(), said)
        except LakesweepError as failure:
            logger.warning(
                "set#%s its failure could not be recorded: %s", self._live_set.id, failure
            )

    def _judge(self, found: LiveGrounds) -> tuple[Listed, FilesJudged]:
        context = self._context
        with context.phases.phase("list") as step:
            roots = outermost(base.location for base in found.grounds.bases)
            listed = list_base_folders(context, roots, self._folder.listing)
            step.items = listed.seen.objects
            step.said = f"{listed.seen} in {len(roots)} folders"
        protection = found.grounds.protection(listed.tables)
        self._record = self._record.noted(*_named(found.grounds.unknown_tables(listed.tables)))
        with context.phases.phase("judge") as step:
            judge = file_judge(context.target, self._folder.verdicts, self._cutoff)
            judged = judge_files(
                context,
                found.references(),
                listed_parts(listed.parts),
                protection,
                judge,
                self._folder.manifests,
            )
            step.items = listed.seen.objects
            kinds = (Verdict.LIVE, Verdict.PROTECTED, Verdict.YOUNG)
            step.said = ", ".join(f"{judged.tallies[v].objects} {v}" for v in kinds)
            step.said += f", {judged.garbage_tally.objects} garbage"
        if judged.fuller_manifests:
            found.grounds.live.notices[FULLER] = judged.fuller_manifests
        refuse_bad_manifests(
            context, found, self._request, "Nothing was deleted.", judged.bad_manifests
        )
        self._record = with_notices(self._record, found.grounds.live)
        examples = {"odd names": list(listed.untouchable)} if listed.untouchable else {}
        self._record = with_verdicts(self._record, listed.seen, judged, listed.protected, examples)
        return listed, judged

    def _defer(self, judged: FilesJudged, found: LiveGrounds) -> RunRecord:
        context, live_sets = self._context, self._context.live_sets
        with context.phases.phase("record") as step:
            live_sets.clear_deferred(self._live_set.id)
            spelling = BaseSpelling(found.grounds.bases)
            files = self._deferred_files(judged.garbage, spelling)
            step.items = live_sets.add_deferred(self._live_set.id, files)
            step.said = f"{step.items} files recorded for a later delete"
        if step.items != judged.garbage_tally.objects:
            raise UnsafeToSweepError(
                f"{judged.garbage_tally.objects} files were to be recorded, {step.items} have been. Nothing was deleted.",
                kind="not-conserved",
            )
        status = RunStatus.MARKED if step.items else RunStatus.NOTHING_TO_DO
        record = finished(context, self._record, status).noted(
            f"{step.items} files are recorded: `list-deferred` shows them, `deferred-deletes` deletes them"
        )
        save_record(context, record)
        return record

    def _deferred_files(self, parts: list[Part], spelling: BaseSpelling) -> Iterator[DeferredFile]:
        for part in parts:
            for batch in read_part(self._context.store.read(part.key), FILE_SCHEMA, part.key):
                modified = batch.column("last_modified").to_pylist()
                for uri, at in zip(batch.column("uri").to_pylist(), modified, strict=True):
                    base, spelled = spelling.of(uri)
                    yield deferred_file(base, spelled, at)

    def _plan_to_go_on_with(self) -> Plan | None:
        """The plan of an earlier, unfinished expiry: begun already, or confirmed now."""
        earlier = find_record(self._context, self._live_set)
        self._has_begun_before = earlier is not None and earlier.status is RunStatus.PARTLY_SWEPT
        plan = find_plan(self._context, self._live_set.id)
        if self._request.confirm is not None:
            if plan is None or plan.id != self._request.confirm:
                raise ConfigError(
                    f"--confirm {self._request.confirm}: live set {self._live_set.id} has "
                    f"{f'plan {plan.id}' if plan else 'no plan'} in {self._context.work.uri}. Nothing was deleted.",
                    kind="other-plan",
                )
            return plan
        if plan is not None and self._has_begun_before and earlier is not None:
            self._record = replace(
                self._record,
                objects=earlier.objects,
                bytes=earlier.bytes,
                protected=earlier.protected,
            ).noted("goes on with an earlier expiry of this set")
            return plan
        return None

    def _sweep_again(self, plan: Plan, found: LiveGrounds, lease: Lease) -> RunRecord:
        parts = planned_parts(self._context, plan)
        self._record = replace(self._record, plan_id=plan.id)
        return self._delete(parts, found, lease, found.references(), ())

    def _sweep(
        self,
        listed: Listed,
        judged: FilesJudged,
        found: LiveGrounds,
        lease: Lease,
    ) -> RunRecord:
        plan = save_plan(
            self._context,
            self._live_set.id,
            self._record.repository,
            self._cutoff,
            judged.tallies[Verdict.LIVE],
            judged.garbage,
        )
        self._record = replace(self._record, plan_id=plan.id)
        self._check_share(plan)
        return self._delete(judged.garbage, found, lease, [], listed.tables)

    def _check_share(self, plan: Plan) -> None:
        command = f"lakesweep nessie expire --live-set-id {self._live_set.id} --confirm {plan.id}"
        radius = replace(plan.blast_radius, confirming_command=command)
        if self._request.is_in_memory:
            # Neither the set nor its plan will be there for another command.
            radius = replace(
                radius,
                confirming_command="`lakesweep nessie gc` again, with --jdbc-url in place of --inmemory, which keeps the set "
                f"and its plan to be looked at and confirmed, or with --max-delete-share {math.ceil(radius.share)}",
            )
        radius.check_confirmed(None, self._request.max_delete_share)

    def _delete(
        self,
        parts: list[Part],
        found: LiveGrounds,
        lease: Lease,
        references: list[ReferenceItem],
        tables: Iterable[FoundTable],
    ) -> RunRecord:
        context = self._context
        catalog = self._catalog_now(found)
        if catalog is None:
            self._record = self._record.noted(NOT_REVERIFIED)
        begun = replace(
            self._record,
            status=RunStatus.PARTLY_SWEPT,
            reason="an expiry began to delete and has not ended",
        )
        FileSweep(
            context=context,
            live_set_id=self._live_set.id,
            parts=parts,
            protection=lambda now: found.grounds.protection(tables, now.others, now.files),
            cutoff=self._cutoff,
            references=references,
            catalog=catalog,
            refuse_bad=partial(
                refuse_bad_manifests,
                context,
                found,
                self._request,
                "No further file was deleted.",
            ),
            lease=lease,
            compare_clocks=partial(self.compare_clocks, found, lease),
            note_begin=lambda: save_record(context, begun),
        ).run(self._swept)
        self._record = with_notices(self._record, found.grounds.live)
        record = with_sweep(self._record, self._swept)
        refuse_incomplete(self._swept, self._live_set)
        status = RunStatus.SWEPT if parts else RunStatus.NOTHING_TO_DO
        record = finished(context, record, status)
        save_record(context, record)
        return record

    def _catalog_now(self, found: LiveGrounds) -> CatalogNow | None:
        if self._client is None:
            return None
        return CatalogNow(
            self._client,
            self._context.live_sets,
            self._live_set,
            self._facts,
            found.known,
            self._read_newly_live,
        )

    def _read_newly_live(self, states: list[DistinctContent]) -> LiveFiles:
        return read_newly_live(self._context, states, self._request)


def _named(tables: list[FoundTable]) -> Iterator[str]:
    """A note that names tables which are not this catalog's."""
    if tables:
        shown = ", ".join(f"{table.folder} ({table.kind})" for table in tables[:_NAMED_AT_MOST])
        more = ", …" if len(tables) > _NAMED_AT_MOST else ""
        yield (
            f"{len(tables)} tables below base locations are no live content of this catalog, and their files stay: "
            f"{shown}{more}"
        )
