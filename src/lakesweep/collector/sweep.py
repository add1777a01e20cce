"""Sweep: delete what a plan names and is still garbage, in rounds of a new look at what is live and bounded deletion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from lakesweep.collector import guards
from lakesweep.collector.catalog import Authorised, SweptCatalog
from lakesweep.collector.copies.copier import CopyRoad
from lakesweep.collector.copies.copy import copy_parts, refuse_inside
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger import deleting
from lakesweep.collector.ledger.deleting import (
    DELETED_SCHEMA,
    LedgerFolders,
    chunks_of,
    delete_chunks,
)
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources
from lakesweep.collector.sweep_progress import SweepProgress
from lakesweep.collector.target import Target, own_name
from lakesweep.collector.unfinished import STOPPED, kind_of, status_after
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import (
    LakesweepError,
    PartlySweptError,
    StorageError,
    foreign_errors_as_ours,
)

_ROWS_PER_CHUNK = 10_000
_MOST_NAMES = 1000  # of revived objects in a record
_KEYS_FAILED = "keys-failed"


@dataclass
class Sweep:
    """One sweep of one plan. `record` is that of the plan's run, which may tell of an earlier, interrupted sweep."""

    catalog: SweptCatalog
    resources: Resources
    plan: Plan
    record: RunRecord
    request: SweepRequest
    lease: Lease

    # Restorations have the store's time, and what is gone must be in order with them.
    _store_time: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._progress = SweepProgress(kept_outcomes=self.catalog.kept_outcomes)
        self._has_looked = False
        self._may_have_deleted = False

    def run(self) -> RunRecord:
        """Delete what the plan names and is garbage still. Returns the saved record.

        Raises:
            UnsafeToSweepError: doubt; nothing was deleted.
            PartlySweptError: some was deleted and some is left; going on with the sweep deletes the rest.
        """
        guards.refuse_long_requests(self.resources.target.storage, self.resources.margins)
        self.resources.phases.may_write_reports = True
        self.plan.check_age_allowed(self.request.allow_lower_min_age)
        self.catalog.blast_radius.check_confirmed(
            self.request.confirm, self.request.max_delete_share
        )
        try:
            with foreign_errors_as_ours(f"No further {self.catalog.texts.noun} was deleted."):
                authorised = self._rounds()
                if self.request.dry_run:
                    said = f"dry run: {authorised.tally} would be deleted"
                    return self._ended(self.record.status, "").noted(said)
                return self._conclude()
        except KeyboardInterrupt as stop:
            if self._is_partly_swept:
                ended = self._ended(RunStatus.PARTLY_SWEPT, STOPPED, kind_of(stop))
                self.resources.save_record_if_possible(self.catalog.files.record, ended)
            raise
        except LakesweepError as error:
            if error.kind == _KEYS_FAILED:
                raise  # the sweep came to its end, and has said so
            is_partly = self._is_partly_swept
            status = RunStatus.PARTLY_SWEPT if is_partly else status_after(error)
            ended = self._ended(status, error.message, error.kind)
            self.resources.save_record_if_possible(self.catalog.files.record, ended)
            if not is_partly:
                raise
            said = self.catalog.stopped(error.message, self._progress)
            raise PartlySweptError(said, kind=error.kind) from error

    def _rounds(self) -> Authorised:
        """Look again, delete while the authority lasts, and again until every row has its outcome."""
        tries = late_rounds = idle_rounds = 0
        parts: Sequence[Part] | None = None  # what the round before was allowed to delete
        is_backed_up = self.request.backup_to is None
        clock, margins = self.resources.clock, self.resources.margins
        while True:
            began, first_phase = clock(), len(self.resources.phases.done)
            # The store's clock before anything is read: what the look finds is true from then on.
            read_at = self._store_time = self.lease.renew()
            readings = self.catalog.clock_readings(read_at)
            guards.compare_clocks(read_at, readings, clock, margins)
            if not self.request.dry_run:
                # Before the look: what it does not see can't become live any more.
                self.catalog.put_up_fence(read_at + margins.longest_authority)
            authorised = self._look_again(parts)
            if self.request.dry_run:
                return authorised
            self._record_missing(authorised.absent)
            parts = authorised.parts
            if parts and not is_backed_up:
                # Copying takes its time: what is live is read again before anything is deleted, and only what was
                # copied and verified is looked at from here on.
                is_backed_up = True
                parts = self._back_up(parts)
                if parts:
                    continue
            if not parts:
                self.catalog.lift_fence()
                return authorised
            took = clock() - began
            valid_for = margins.authority_after(took)
            self._note_begin()
            # Once more, now that the engine runs: the lease says where its tasks are, and outlives what they may do.
            self._store_time = self.lease.renew(margins.lease_life_for(valid_for))
            tried = self._delete_round(parts, read_at + valid_for)
            self.catalog.lift_fence()
            off = tried[deleting.CLOCK_OFF].objects
            left = tried[deleting.NOT_TRIED].objects + off
            is_all_left = left == authorised.tally.objects
            if off and is_all_left:
                guards.refuse_executor_clocks(self._progress.examples[deleting.CLOCK_OFF])
            late_rounds = late_rounds + 1 if is_all_left else 0
            if late_rounds > guards.LATE_ROUNDS_ALLOWED:
                steps = self.resources.phases.done[first_phase:]
                name, advice = self.catalog.texts.catalog, self.catalog.slow_step_advice
                raise guards.too_slow(name, took, valid_for, steps, advice)
            if any(tried[outcome].objects for outcome in deleting.DONE):
                idle_rounds = 0
            elif not is_all_left:
                idle_rounds += 1
            if left and idle_rounds >= guards.TRIES:
                # Round after round would ask for the same rows first, and never come to the others.
                guards.refuse_more_rounds(self._progress.failed, self._progress.why_failed, left)
            if not left:
                tries += 1
                retriable = tried[deleting.THROTTLED] + tried[deleting.FAILED]
                if not retriable.objects or tries >= guards.TRIES:
                    return authorised
            self._progress.forget_undone()

    def _look_again(self, before: Sequence[Part] | None) -> Authorised:
        authorised = self.catalog.look_again(before)
        if before is None:
            self._progress.done_before = authorised.done
            self._check_widening(authorised.tally + authorised.done)
        self._has_looked = True
        self._progress.kept += authorised.kept
        self._name_revived(authorised.kept.revived_parts)
        return authorised

    def _name_revived(self, parts: Sequence[Part]) -> None:
        """Name what came back to life, as much of it as a record has room for."""
        deleter, names = self.catalog.deleter(), self._progress.revived_names
        for part in parts:
            if len(names) < _MOST_NAMES:
                rows = deleter.read(self.resources.store.read(part.key), part.key)
                names += rows.column(deleter.name_column).to_pylist()
        del names[_MOST_NAMES:]

    def _check_widening(self, named: Tally) -> None:
        """Measure again a mark that was edited by hand, and one whose sizes nobody knew."""
        radius, share = self.catalog.blast_radius, self.request.max_delete_share
        if not self.catalog.is_plan_untouched:
            radius.check_widening(named, share)
        elif self.request.confirm is None:
            replace(radius, garbage=named).check_confirmed(None, share)

    def _note_begin(self) -> None:
        """Durable before the first delete: after a kill, it is known that this plan was confirmed and begun."""
        begun = replace(
            self.record,
            status=RunStatus.PARTLY_SWEPT,
            reason=self.catalog.texts.begun,
            backup_to=self._backup_uri,
            has_copies=self._has_copies,
        )
        self.resources.save_record(self.catalog.files.record, begun)

    def _delete_round(self, parts: Sequence[Part], not_after: datetime) -> dict[str, Tally]:
        resources, deleter = self.resources, self.catalog.deleter()
        chunks = chunks_of(
            parts, not_after, _ROWS_PER_CHUNK, clock_skew=resources.margins.clock_skew
        )
        rows = sum(part.rows for part in parts)
        gone = self.catalog.gone_folder(self._store_time)
        # A folder of this round's own, so that what it began is counted without what earlier ones did.
        ledger = own_name(self.catalog.files.ledger, "round", "/")
        folders = LedgerFolders(ledger, gone)
        per_row = deleter.seconds_per_row
        scatter = Scatter(
            chunks,
            partial(delete_chunks, resources.target, folders, deleter),
            DELETED_SCHEMA,
            tasks_for(len(chunks), resources.engine.slots, at_most=resources.most_tasks),
            seconds=rows * per_row if per_row is not None else None,
            objects=rows,
            size_bytes=sum(part.bytes for part in parts),
        )
        tried: dict[str, Tally] = defaultdict(Tally)
        self._may_have_deleted = True  # until the round says what it did
        with resources.phases.phase("delete") as step:
            for row in self._collected(scatter):
                tally = Tally(row["objects"], row["bytes"])
                tried[row["outcome"]] += tally
                self._progress.add(row["outcome"], tally, row["example"])
            counted = sum(tally.objects for tally in tried.values())
            guards.refuse_lost_rows(rows, counted, self.catalog.texts.noun)
            self._may_have_deleted = self._progress.deleted.objects > 0
            step.handled(tried[deleting.DELETED])
            step.said = ", ".join(f"{t.objects} {o}" for o, t in tried.items() if t.objects)
        if self._attempts_in(ledger) > len(chunks):
            # An attempt that was lost with its executor, or outrun by another, may delete until its time is over.
            self.lease.leave_to_run_out()
        return tried

    def _attempts_in(self, ledger: str) -> int:
        """How many attempts at chunks have begun, by their intents; none of an engine whose tasks end with their job."""
        if self.resources.engine.process_tree:
            return 0
        return sum(key.endswith(deleting.INTENT) for key in self.resources.store.keys(ledger))

    def _collected(self, scatter: Scatter) -> list[dict[str, Any]]:
        """What became of the rows of a round. Where the round breaks off, its tasks may outlive it."""
        engine = self.resources.engine
        try:
            rows: list[dict[str, Any]] = engine.collect(scatter).to_pylist()
        except BaseException:
            # Tasks of this machine are found by their mark. Others may delete for as long as their chunk is allowed to.
            if not engine.process_tree:
                self.lease.leave_to_run_out()
            raise
        return rows

    def _back_up(self, parts: Sequence[Part]) -> list[Part]:
        """Copy these objects; the parts of those whose copy was verified."""
        target, to = self.resources.target, self.request.backup_to
        assert to is not None
        refuse_inside(target.namespace, to)
        backup = Target(to, self.request.backup_storage or target.storage)
        folder = self.catalog.files.verdicts
        with self.resources.phases.phase("backup") as step:
            why_not = self.catalog.deleter().why_not
            road = CopyRoad(target, target, backup, target, folder, why_not)
            copied = copy_parts(self.resources.engine, road, parts)
            step.handled(tally_of(copied.verified))
            step.said = ", ".join(f"{t.objects} {o}" for o, t in copied.tallies.items())
        self._progress.leave_without_copy(copied.failed, copied.unverified, copied.why_failed)
        self._record_missing(copied.missing)
        return copied.verified

    def _record_missing(self, parts: Sequence[Part]) -> None:
        """What is gone from the store already needs no backup and no delete, and is recorded like a deletion."""
        folder = self.catalog.gone_folder(self._store_time)
        for part in parts:
            self.resources.store.copy(part.key, folder + part.key.rsplit("/", 1)[-1])
            self._progress.add(deleting.ALREADY_GONE, Tally(part.rows, part.bytes), "")

    def _conclude(self) -> RunRecord:
        """The record of a sweep whose every row has its outcome, saved; an error when some are still there."""
        texts, failed, deleted = self.catalog.texts, self._progress.failed, self._progress.deleted
        said = f"{failed} of {texts.plan} could not be deleted ({self._progress.why_failed})."
        status = RunStatus.SWEPT
        failure: LakesweepError | None = None
        if failed.objects and deleted.objects:
            said = f"{said} {deleted} were. {texts.go_on}"
            status, failure = RunStatus.PARTLY_SWEPT, PartlySweptError(said, kind=_KEYS_FAILED)
        elif failed.objects:
            said = f"{said} Nothing was deleted. {texts.go_on}"
            status, failure = RunStatus.FAILED, StorageError(said, kind=_KEYS_FAILED)
        kind = failure.kind if failure is not None else ""
        record = self._ended(status, self._progress.why_failed, kind)
        record = self.catalog.concluded(record, self._progress, failure)
        self.resources.save_record(self.catalog.files.record, record)
        if failure is not None:
            raise failure
        return record

    def _ended(self, status: RunStatus, reason: str, kind: str = "") -> RunRecord:
        """The record with what this sweep did."""
        # Whoever goes on with this sweep copies first, too.
        to = "" if status is RunStatus.SWEPT else self._backup_uri or self.record.backup_to
        ended = replace(
            self.resources.ended(self.record, status, reason, kind),
            backup_to=to,
            has_copies=self._has_copies,
        )
        if not self._has_looked:
            # Nothing was looked at, so what an earlier sweep of this plan counted stays.
            return ended
        counted = {
            "deleted": self._progress.deleted,
            "already_gone": self._progress.tally(deleting.ALREADY_GONE),
            "revived": self._progress.kept.revived,
            "failed": self._progress.failed,
        }
        ended = replace(
            ended.tallied(counted),
            revived=tuple(self._progress.revived_names),
            failures=self._progress.failures,
        )
        return self.catalog.described(ended, self._progress)

    @property
    def _is_partly_swept(self) -> bool:
        """Whether a delete may have been made. A round that broke off has deleted nobody knows how much.

        What an earlier, interrupted sweep of this plan deleted stays true as well.
        """
        return self._may_have_deleted or self.record.status is RunStatus.PARTLY_SWEPT

    @property
    def _has_copies(self) -> bool:
        """Whether this sweep or an earlier one of the plan copies before it deletes."""
        return self.record.has_copies or bool(self._backup_uri or self.record.backup_to)

    @property
    def _backup_uri(self) -> str:
        return self.request.backup_to.uri if self.request.backup_to is not None else ""
