"""Sweep a mark of a lakeFS repository: what the shared sweep asks of the repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import ClassVar

from lakesweep.collector.catalog import Authorised, SweepTexts
from lakesweep.collector.finality import finality_of_deletes
from lakesweep.collector.judge.references import event_order
from lakesweep.collector.lakefs.between_runs.saved import carry_on
from lakesweep.collector.lakefs.checks.reuploads import undecided_notes
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.earlier_deletes import said_of_gone
from lakesweep.collector.lakefs.explain.deletions import deletions_by_server
from lakesweep.collector.lakefs.fence import RevivalFence
from lakesweep.collector.lakefs.live import Roots
from lakesweep.collector.lakefs.marks import is_untouched, mark_files, refuse_failed
from lakesweep.collector.lakefs.paths import RunFolder, events_folder, mark_folder
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.verification import Reverified, verify_plan
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger import deleting
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus, decode_record
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources
from lakesweep.collector.sweep import Sweep
from lakesweep.collector.sweep_progress import SweepProgress
from lakesweep.domain.durations import format_duration, format_time
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, LakesweepError, ObjectNotFoundError
from lakesweep.storage import ObjectStore
from lakesweep.storage.finality import Kept

_MORE_EXECUTORS = "Give the job more executors."
_LESS_STAGED = (
    "Commit or reset branches that have much staged, or give the lakeFS server more resources."
)
SLOW_STEP_ADVICE = {
    "canaries": "The lakeFS server answers slowly: give it more resources.",
    "uncommitted": _LESS_STAGED,
    "commits": "The lakeFS server writes down all of its commits: give it more resources.",
    "ranges": "One small file of each new commit is read from the store: run nearer to it.",
    "judge": _MORE_EXECUTORS,
    "verify": _LESS_STAGED,
    "delete": _MORE_EXECUTORS,
}


def sweep(
    context: RunContext, plan: Plan, record: RunRecord, request: SweepRequest, lease: Lease
) -> RunRecord:
    """Delete what the plan names and is garbage still. Returns the record; raises when the sweep is not complete."""
    if record.status is RunStatus.SWEPT:
        return record.noted(f"mark {plan.mark_id} was swept already: nothing was done")
    if record.status is RunStatus.PARTLY_SWEPT:
        refuse_without_copies(record, request)
    repository, resources = context.repository, context.resources
    untouched = is_untouched(resources.store, plan)
    # A mark that somebody added to is swept though its plan is empty: each row is judged again.
    if not plan.garbage.objects and untouched:
        carry_on(resources.store, plan.run_id, ())
        return record.noted("dry run: nothing would be deleted") if request.dry_run else record
    _refuse_younger_mark(plan, request, lease.store_time or resources.clock())
    swept = SweptRepository(repository, resources, plan, request, is_plan_untouched=untouched)
    return Sweep(swept, resources, plan, record, request, lease).run()


class SweptRepository:
    """A repository whose mark is swept: implements `SweptCatalog`."""

    # A plan names no protected address: where one does, somebody else wrote it, and the user should know.
    kept_outcomes: ClassVar[frozenset[str]] = frozenset()
    slow_step_advice: ClassVar[Mapping[str, str]] = SLOW_STEP_ADVICE

    def __init__(
        self,
        repository: LakeFSRepository,
        resources: Resources,
        plan: Plan,
        request: SweepRequest,
        *,
        is_plan_untouched: bool,
    ) -> None:
        self._repository, self._resources = repository, resources
        self._plan = plan
        # Settings that keep more may be newer than the mark.
        keep_refs = tuple(dict.fromkeys((*plan.keep_refs, *request.keep_refs)))
        self._roots = Roots(keep_refs, plan.keep_tags or request.keep_tags)
        self._marks = _mark_files(resources.store, plan)
        self.clock_readings = repository.clock_readings
        self._verified: Reverified | None = None
        fence = RevivalFence(repository, resources.store, self._marks)
        self.put_up_fence, self.lift_fence = fence.put_up, fence.lift
        self.is_plan_untouched = is_plan_untouched
        self.blast_radius = plan.blast_radius
        self.files = RunFolder(plan.run_id)
        backup = f" --backup-to {request.backup_to.uri}" if request.backup_to is not None else ""
        resume = f"lakesweep runs resume {plan.repository} {plan.run_id}{backup}{plan.unsafe_flag}"
        self.texts = SweepTexts(
            catalog=repository.name,
            plan=f"mark {plan.mark_id}",
            noun="object",
            begun="a sweep began and has not ended",
            go_on=f"`{resume}` goes on.",
        )

    def gone_folder(self, time: datetime) -> str:
        """A folder of deletions among the events, which are in order of time."""
        return events_folder(event_order(time), "gone", self._plan.run_id)

    def look_again(self, before: Sequence[Part] | None) -> Authorised:
        """Read what is live in the repository now, with its canaries and re-uploads."""
        round_before = None
        if before is not None and self._verified is not None:
            round_before = replace(self._verified, parts=list(before))
        with self._resources.phases.phase("re-verify") as step:
            self._verified = found = verify_plan(
                self._repository,
                self._resources,
                self._plan,
                self._marks,
                self._roots,
                trust_dates=self.is_plan_untouched,
                before=round_before,
            )
            step.handled(found.tally)
            step.said = f"still garbage: {found.tally}; live again, and kept: {found.kept.revived}"
        return found

    def deleter(self) -> ObjectDeletion:
        """Deletes addresses that lakeFS gives; at the root only where commits hold such."""
        return ObjectDeletion(root_names=self._verified is not None and self._verified.root_names)

    def stopped(self, reason: str, progress: SweepProgress) -> str:
        """The message about a sweep that stopped half-way."""
        return (
            f"The sweep of mark {self._plan.mark_id} stopped half-way: {reason} "
            f"{progress.tally(deleting.DELETED)} are known to be deleted. {self.texts.go_on}"
        )

    def described(self, record: RunRecord, progress: SweepProgress) -> RunRecord:
        """The record with what was kept and why, and what became of the bytes."""
        kept = progress.kept
        notes = [*undecided_notes(kept.undecided_parts, kept.reasons)]
        if not self.is_plan_untouched:
            notes.append(
                "the mark's files are not those that the mark wrote: every row was checked again"
            )
        if kept.refused.objects:
            notes.append(
                f"{kept.refused} of the mark were kept: a restore was to bring them back, or their names or ages are "
                "not those of garbage"
            )
        finality = {}
        if progress.deleted.objects:
            finality = finality_of_deletes(self._resources.store, self._resources.clock())
        # Bytes that the store keeps, or may keep, are deleted and not freed.
        is_freed = finality.get("kept") == Kept.NOT_KEPT.value
        counted = {
            "kept_undecided": tally_of(kept.undecided_parts),
            "freed": progress.deleted if is_freed else Tally(),
        }
        return replace(record.tallied(counted), finality=finality).noted(*notes)

    def concluded(
        self, record: RunRecord, progress: SweepProgress, failure: LakesweepError | None
    ) -> RunRecord:
        """The record with who deleted what was gone already. The next run may build on this one."""
        store, run_id = self._resources.store, self._plan.run_id
        gone = progress.tally(deleting.ALREADY_GONE).objects
        if gone:
            by_server = partial(deletions_by_server, self._repository)
            record = record.noted(said_of_gone(store, run_id, gone, by_server))
        carry_on(store, run_id, [*progress.kept.parts, *progress.parts_not_backed_up])
        return record


def refuse_without_copies(record: RunRecord, request: SweepRequest) -> None:
    """Refuse to go on without copies with a sweep that copies before it deletes."""
    if record.backup_to and request.backup_to is None:
        raise ConfigError(
            f"The sweep of run {record.run_id} copies to {record.backup_to} before it deletes. Nothing was touched. Give "
            f"--backup-to {record.backup_to} again, so that nothing goes without its copy.",
            kind="no-backup-to",
        )


def _refuse_younger_mark(plan: Plan, request: SweepRequest, store_time: datetime) -> None:
    """Refuse a mark that may name objects younger than the sweep may delete."""
    if request.min_age is not None and store_time - plan.cutoff < request.min_age:
        raise ConfigError(
            f"The mark {plan.mark_id} may name what was written until {format_time(plan.cutoff)}, and that is younger than "
            f"the minimum age of {format_duration(request.min_age)} (--min-age). Nothing was deleted. Mark again.",
            kind="mark-too-young",
        )


def _mark_files(store: ObjectStore, plan: Plan) -> list[str]:
    folder = mark_folder(plan.mark_id)
    listed = mark_files(store, folder)
    if not listed:
        raise ConfigError(
            f"The mark {plan.mark_id} of {plan.repository} has no files any more in {folder}. Nothing was deleted. Mark again.",
            kind="no-mark",
        )
    return listed


def load_record(store: ObjectStore, plan: Plan) -> RunRecord:
    """The record that the plan's run left."""
    key = RunFolder(plan.run_id).record
    try:
        record = decode_record(store.read(key), key)
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"The run {plan.run_id} of {plan.repository} left no record, so its mark was not finished. Nothing was deleted. Mark again.",
            kind="no-mark",
        ) from error
    refuse_failed(record)
    return record
