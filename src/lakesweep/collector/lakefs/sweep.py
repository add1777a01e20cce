"""Sweep: delete what a plan names and is still garbage, in rounds of re-verification and bounded deletion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from lakesweep.collector.copies.copier import CopyRoad
from lakesweep.collector.copies.copy import copy_parts, refuse_inside
from lakesweep.collector.finality import finality_of_deletes
from lakesweep.collector.judge.references import event_order
from lakesweep.collector.lakefs.clocks import compare_clocks
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.earlier_deletes import count_deleted_by_us
from lakesweep.collector.lakefs.failed_marks import refuse_failed
from lakesweep.collector.lakefs.paths import RunFolder, RunId, events_folder, mark_folder
from lakesweep.collector.lakefs.request import SweepRequest
from lakesweep.collector.lakefs.reuploads import undecided_notes
from lakesweep.collector.lakefs.saved import carry_on
from lakesweep.collector.lakefs.verification import Authorised, KeptRows, verify_plan
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger import deleting
from lakesweep.collector.ledger.deleting import (
    DELETED_SCHEMA,
    LedgerFolders,
    chunks_of,
    delete_chunks,
)
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.plan import Plan, is_untouched
from lakesweep.collector.record import RunRecord, RunStatus, decode_record, encode_record
from lakesweep.collector.slow_rereads import LAKEFS_ADVICE, too_slow
from lakesweep.collector.sweep_progress import OUTCOMES, SweepProgress
from lakesweep.collector.target import Target
from lakesweep.collector.unfinished import status_after
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    ObjectNotFoundError,
    PartlySweptError,
    StorageError,
    UnsafeToSweepError,
    foreign_errors_as_ours,
)
from lakesweep.storage.finality import Kept

logger = logging.getLogger(__name__)

_ROWS_PER_CHUNK = 10_000
# A key that failed is tried again in the next round, after another re-verification, so many times.
_TRIES = 2
_KEYS_FAILED = "keys-failed"


def sweep(
    context: RunContext, plan: Plan, record: RunRecord, request: SweepRequest, lease: Lease
) -> RunRecord:
    """Delete what the plan names and is garbage still. Returns the record; raises when the sweep is not complete."""
    if record.status is RunStatus.SWEPT:
        return record.noted(f"mark {plan.mark_id} was swept already: nothing was done")
    if not plan.garbage.objects and is_untouched(context.store, plan):
        carry_on(context.store, plan.run_id, ())
        return record
    plan.check_age_allowed(request.allow_lower_min_age)
    plan.blast_radius.check_confirmed(request.confirm, request.max_delete_share)
    run = _Sweep(context, plan, request, lease)
    try:
        with foreign_errors_as_ours("No further object was deleted."):
            authorised = run.rounds(lambda: _save(context, run.begun(record)))
            if request.dry_run:
                return run.recorded(record, record.status, "").noted(
                    f"dry run: {authorised.tally} would be deleted"
                )
            return run.finished(record)
    except LakesweepError as error:
        if error.kind == _KEYS_FAILED:
            raise  # the sweep came to its end, and has said so
        # A round that broke off has deleted nobody knows how much. What an earlier, interrupted sweep of this plan
        # deleted stays true as well.
        is_partly = run.may_have_deleted or record.status is RunStatus.PARTLY_SWEPT
        status = RunStatus.PARTLY_SWEPT if is_partly else status_after(error)
        run.save_if_possible(run.recorded(record, status, error.message))
        if not is_partly:
            raise
        raise PartlySweptError(
            f"The sweep of mark {plan.mark_id} stopped half-way: {error.message} "
            f"{run.progress.tally(deleting.DELETED)} are known to be deleted. {run.how_to_go_on}",
            kind=error.kind,
        ) from error


class _Sweep:
    """One sweep under way."""

    def __init__(
        self, context: RunContext, plan: Plan, request: SweepRequest, lease: Lease
    ) -> None:
        self._context = context
        self._plan = plan
        self._request = request
        self._lease = lease
        self._marks = _mark_files(context, plan)
        self._trust_dates = is_untouched(context.store, plan)
        self._authorised: Authorised | None = None
        self._kept = KeptRows()
        self._is_backed_up = request.backup_to is None
        self._not_backed_up: list[Part] = []
        self.progress = SweepProgress()
        self.may_have_deleted = False

    def begun(self, record: RunRecord) -> RunRecord:
        """Durable before the first delete: after a kill, `runs resume` knows that this plan was confirmed and begun."""
        return replace(
            record,
            status=RunStatus.PARTLY_SWEPT,
            reason="a sweep began and has not ended",
            backup_to=self._backup_uri,
        )

    def finished(self, record: RunRecord) -> RunRecord:
        """The record of a sweep whose every key has its outcome, saved; an error when some are still there."""
        failed = self.failed()
        deleted = self.progress.tally(deleting.DELETED) + self.progress.done_before
        status = RunStatus.SWEPT
        if failed.objects:
            status = RunStatus.PARTLY_SWEPT if deleted.objects else RunStatus.FAILED
        record = self.recorded(record, status, self.why_failed())
        record = record.noted(*self._who_was_first())
        carry_on(self._context.store, self._plan.run_id, [*self._kept.parts, *self._not_backed_up])
        _save(self._context, record)
        said = f"{failed} of mark {self._plan.mark_id} could not be deleted ({self.why_failed()})."
        if status is RunStatus.PARTLY_SWEPT:
            raise PartlySweptError(f"{said} {deleted} were. {self.how_to_go_on}", kind=_KEYS_FAILED)
        if status is RunStatus.FAILED:
            raise StorageError(
                f"{said} Nothing was deleted. {self.how_to_go_on}", kind=_KEYS_FAILED
            )
        return record

    def _who_was_first(self) -> Iterator[str]:
        gone = self.progress.tally(deleting.ALREADY_GONE).objects
        if gone:
            ours = min(gone, count_deleted_by_us(self._context.store, self._plan.run_id))
            yield (
                f"of {gone} objects that were already gone, {ours} had been deleted by earlier runs of lakesweep and "
                f"{gone - ours} by somebody else"
            )

    @property
    def _backup_uri(self) -> str:
        return self._request.backup_to.uri if self._request.backup_to is not None else ""

    def save_if_possible(self, record: RunRecord) -> None:
        """Write the record of a sweep that stopped; where the store is what failed, the earlier one has to do."""
        try:
            with foreign_errors_as_ours("Its record was not written."):
                _save(self._context, record)
        except LakesweepError as error:
            logger.warning("run#%s its record could not be written: %s", record.run_id, error)

    @property
    def how_to_go_on(self) -> str:
        """What a user does about a sweep that is not complete."""
        flags = f" --backup-to {self._backup_uri}" if self._backup_uri else ""
        resume = f"lakesweep runs resume {self._plan.repository} {self._plan.run_id}{flags}"
        return f"`{resume}{self._plan.unsafe_flag}` goes on."

    def rounds(self, note_begin: Callable[[], None]) -> Authorised:
        """Re-verify, delete while the authorisation lasts, and again until every key has its outcome."""
        tries = 0
        slow_rounds = 0
        margins = self._context.margins
        while True:
            began, first_phase = self._context.clock(), len(self._context.phases.done)
            store_time = self._lease.renew()
            compare_clocks(self._context, store_time)
            with self._context.phases.phase("re-verify") as step:
                authorised = verify_plan(
                    self._context,
                    self._plan,
                    self._marks,
                    trust_dates=self._trust_dates,
                    read_at=store_time,
                    before=self._authorised,
                )
                step.items = authorised.tally.objects
                step.said = f"{authorised.tally} still garbage, {authorised.kept.revived} revived"
            if self._authorised is None:
                self.progress.done_before = authorised.done
                self._check_widening(authorised.tally + authorised.done)
            self._authorised = authorised
            self._kept += authorised.kept
            if self._request.dry_run:
                return authorised
            self._record_missing(authorised.absent)
            if not authorised.parts:
                return authorised
            if not self._is_backed_up:
                # Copying takes its time: what is live is read again before anything is deleted, and only what was
                # copied and verified is looked at from here on.
                self._is_backed_up = True
                self._authorised = replace(authorised, parts=self._back_up(authorised.parts))
                if not self._authorised.parts:
                    return self._authorised
                continue
            took = self._context.clock() - began
            valid_for = margins.authority_after(took)
            note_begin()
            # Once more, now that the engine runs: the lease says where its tasks are, and outlives what they may do.
            self._lease.renew(margins.lease_life_for(valid_for))
            with self._context.phases.phase("delete") as step:
                tried = self._delete_round(authorised, valid_for)
                self.may_have_deleted = self.progress.tally(deleting.DELETED).objects > 0
                step.items = tried[deleting.DELETED].objects
                step.said = ", ".join(f"{t.objects} {o}" for o, t in tried.items() if t.objects)
            off = tried[deleting.CLOCK_OFF].objects
            left = tried[deleting.NOT_TRIED].objects + off
            retriable = tried[deleting.THROTTLED].objects + tried[deleting.FAILED].objects
            if off and left == authorised.tally.objects:
                raise UnsafeToSweepError(
                    f"No executor could delete in time: {self.progress.examples[deleting.CLOCK_OFF]}. Nothing more was "
                    "deleted.",
                    kind="clock-skew",
                )
            # What one re-read has read of files that never change, the next one need not read again.
            slow_rounds = slow_rounds + 1 if left and left == authorised.tally.objects else 0
            if slow_rounds > 1:
                steps = self._context.phases.done[first_phase:]
                raise too_slow(self._context.name, took, valid_for, steps, LAKEFS_ADVICE)
            tries += 1 if not left else 0
            if not left and (not retriable or tries >= _TRIES):
                return authorised
            self.progress.forget_undone()

    def _check_widening(self, named: Tally) -> None:
        """Measure again a mark that was edited by hand, and one whose sizes nobody knew."""
        radius, share = self._plan.blast_radius, self._request.max_delete_share
        if not self._trust_dates:
            radius.check_widening(named, share)
        elif self._request.confirm is None:
            replace(radius, garbage=named).check_confirmed(None, share)

    def _delete_round(self, authorised: Authorised, valid_for: timedelta) -> dict[str, Tally]:
        parts = authorised.parts
        not_after = authorised.read_at + valid_for
        chunks = chunks_of(
            parts,
            not_after,
            _ROWS_PER_CHUNK,
            clock_skew=self._context.margins.clock_skew,
            root_names=authorised.root_names,
        )
        folders = LedgerFolders(RunFolder(self._plan.run_id).ledger, self._gone_folder())
        scatter = Scatter(
            chunks,
            partial(delete_chunks, self._context.target, folders),
            DELETED_SCHEMA,
            tasks_for(
                len(chunks),
                self._context.engine.slots,
                at_most=self._context.parallelism.partitions,
            ),
        )
        tried: dict[str, Tally] = {o: Tally() for o in OUTCOMES}
        self.may_have_deleted = True  # until the round says what it did
        for row in self._context.engine.collect(scatter).to_pylist():
            tally = Tally(row["objects"], row["bytes"])
            tried[row["outcome"]] += tally
            self.progress.add(row["outcome"], tally, row["example"])
        counted = sum(t.objects for t in tried.values())
        if counted != sum(part.rows for part in parts):
            raise UnsafeToSweepError(
                f"{sum(part.rows for part in parts)} keys were to be deleted, {counted} have an outcome. "
                "No further key was deleted.",
                kind="not-conserved",
            )
        return tried

    def _back_up(self, parts: Sequence[Part]) -> list[Part]:
        """Copy these objects; the parts of those whose copy was verified."""
        target, to = self._context.target, self._request.backup_to
        assert to is not None
        refuse_inside(target.namespace, to)
        backup = Target(to, self._request.backup_storage or target.storage)
        folder = RunFolder(self._plan.run_id).verdicts
        with self._context.phases.phase("backup") as step:
            road = CopyRoad(marks=target, source=target, target=backup, work=target, folder=folder)
            copied = copy_parts(self._context.engine, road, parts)
            step.items = sum(part.rows for part in copied.verified)
            step.said = ", ".join(f"{t.objects} {o}" for o, t in copied.tallies.items())
        self.progress.not_backed_up = copied.failed
        self._not_backed_up = copied.unverified
        if copied.failed.objects:
            self.progress.examples["not backed up"] = copied.why_failed
        self._record_missing(copied.missing)
        return copied.verified

    def _record_missing(self, parts: Sequence[Part]) -> None:
        """What is gone from the store already needs no backup and no delete, and is recorded like a deletion."""
        folder = self._gone_folder()
        for part in parts:
            self._context.store.copy(part.key, folder + part.key.rsplit("/", 1)[-1])
            self.progress.add(deleting.ALREADY_GONE, Tally(part.rows, part.bytes), "")

    def _gone_folder(self) -> str:
        return events_folder(event_order(self._context.clock()), "gone", self._plan.run_id)

    def failed(self) -> Tally:
        """Keys of the plan that are still there and should not be."""
        return (
            self.progress.tally(
                deleting.DENIED, deleting.THROTTLED, deleting.FAILED, deleting.PROTECTED
            )
            + self.progress.not_backed_up
        )

    @property
    def failures(self) -> dict[str, str]:
        """One example for each way of failing."""
        return {
            outcome: example
            for outcome, example in self.progress.examples.items()
            if outcome not in deleting.DONE
            and (outcome == "not backed up" or self.progress.tally(outcome).objects)
        }

    def why_failed(self) -> str:
        """The same in one line."""
        return "; ".join(f"{outcome}: {example}" for outcome, example in self.failures.items())

    def recorded(self, record: RunRecord, status: RunStatus, reason: str) -> RunRecord:
        """The record with what this sweep did."""
        ended = replace(
            record,
            status=status,
            reason=reason,
            finished_at=self._context.clock(),
            phases=tuple(self._context.phases.done),
            # Whoever goes on with this sweep copies first, too.
            backup_to="" if status is RunStatus.SWEPT else self._backup_uri or record.backup_to,
        )
        if self._authorised is None:
            # Nothing was looked at, so what an earlier sweep of this plan counted stays.
            return ended
        kept = self._kept
        counted = {
            "deleted": self.progress.tally(deleting.DELETED) + self.progress.done_before,
            "already_gone": self.progress.tally(deleting.ALREADY_GONE),
            "revived": kept.revived,
            "kept_undecided": tally_of(kept.undecided_parts),
            "failed": self.failed(),
        }
        notes = [*undecided_notes(kept.undecided_parts, kept.reasons)]
        if not self._trust_dates:
            notes.append(
                "the mark's files are not those that the mark wrote: every row was checked again"
            )
        if kept.refused.objects:
            notes.append(
                f"{kept.refused} of the mark were not garbage by shape or age, and were kept"
            )
        finality = finality_of_deletes(self._context) if counted["deleted"].objects else {}
        # Bytes that the store keeps, or may keep, are deleted and not freed.
        is_freed = finality.get("kept") == Kept.NOT_KEPT.value
        counted["freed"] = counted["deleted"] if is_freed else Tally()
        return replace(
            ended.counted(
                {name: tally.objects for name, tally in counted.items()},
                {name: tally.bytes for name, tally in counted.items()},
            ),
            revived=kept.names,
            failures=self.failures,
            finality=finality,
        ).noted(*notes)


def _mark_files(context: RunContext, plan: Plan) -> list[str]:
    folder = mark_folder(plan.mark_id)
    listed = [key for key in context.store.keys(folder) if key.endswith(".parquet")]
    if not listed:
        raise ConfigError(
            f"The mark {plan.mark_id} of {context.name} has no files any more in {folder}. Nothing was deleted. Mark again.",
            kind="no-mark",
        )
    return listed


def _save(context: RunContext, record: RunRecord) -> None:
    context.phases.saved_record = record
    context.store.write(RunFolder(RunId(record.run_id)).record, encode_record(record))


def load_record(context: RunContext, plan: Plan) -> RunRecord:
    """The record that the plan's run left."""
    key = RunFolder(plan.run_id).record
    try:
        record = decode_record(context.store.read(key), key)
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"The run {plan.run_id} of {context.name} left no record, so its mark was not finished. Nothing was deleted. Mark again.",
            kind="no-mark",
        ) from error
    refuse_failed(context, record)
    return record
