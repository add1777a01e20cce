"""Sweep files by a live set: what the shared sweep asks of a Nessie catalog."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from lakesweep.collector.catalog import Authorised, SweepTexts, SweptCatalog
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.judge.candidates import planned_parts
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger import deleting
from lakesweep.collector.nessie.catalog_now import NewlyLive
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.nessie.judging import file_judge, judge_files
from lakesweep.collector.nessie.listing import FoundTable
from lakesweep.collector.nessie.live_catalog import LiveCatalog
from lakesweep.collector.nessie.opening import LiveSetRun
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.records import with_notices
from lakesweep.collector.nessie.references import GoneFiles, ReferenceItem
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.sweep import Sweep
from lakesweep.collector.sweep_progress import KeptRows, SweepProgress
from lakesweep.collector.unfinished import kind_of, status_after
from lakesweep.domain.verdicts import Verdict
from lakesweep.errors import LakesweepError

NOT_REVERIFIED = "not re-verified (--no-reverify): Nessie was not asked again, so what became live since the mark is not known"
_MORE_EXECUTORS = "Give the job more executors."


@dataclass
class SweptLiveSet(SweptCatalog):
    """A live set by which planned files are swept: implements `SweptCatalog`."""

    opened: LiveSetRun
    found: LiveCatalog
    plan: Plan
    cutoff: datetime
    parts: Sequence[Part]  # the planned files
    tables: Iterable[FoundTable] = ()  # below base locations
    is_judged: bool = False  # by what was found, just now

    begun: ClassVar[str] = "an expiry began to delete and has not ended"

    # Whoever reads the planned parts refuses changed ones.
    is_plan_untouched = True
    # A file that is protected now, or that was written anew, stays as it should.
    kept_outcomes: ClassVar[frozenset[str]] = frozenset({deleting.PROTECTED, deleting.CHANGED})
    slow_step_advice: ClassVar[Mapping[str, str]] = {
        "ask again": "Nessie answers slowly, or much became live since the mark: give Nessie more resources, or mark again.",
        "re-verify": _MORE_EXECUTORS,
        "delete": _MORE_EXECUTORS,
    }

    def __post_init__(self) -> None:
        self._resources, self._table_reader = self.opened.resources, self.opened.reader.table_reader
        self._request = self.opened.request
        self._catalog = self.opened.catalog_now(self.found)
        self._protection = FolderIndex()
        name, command = f"live set {self.opened.live_set.id}", self.opened.reader.command
        self.texts = SweepTexts(
            catalog=f"the catalog of {name}",
            plan=name,
            noun="file",
            begun=self.begun,
            go_on=f"`{command}` goes on.",
        )
        confirming = f"{command} --confirm {self.plan.id}"
        if self._request.is_in_memory:
            # Neither the set nor its plan will be there for another command.
            share = math.ceil(self.plan.blast_radius.share)
            confirming = (
                "`lakesweep nessie gc` again, with --jdbc-url in place of --inmemory, which keeps the set "
                f"and its plan to be looked at and confirmed, or with --max-delete-share {share}"
            )
        self.blast_radius = replace(self.plan.blast_radius, confirming_command=confirming)

    @property
    def files(self) -> SetFolder:
        """The files of this set's runs, in the work location."""
        return self.opened.folder

    def sweep(self, record: RunRecord, lease: Lease, confirm: str | None) -> RunRecord:
        """Delete the planned files that are garbage still."""
        record = replace(record, plan_id=self.plan.id)
        if self.opened.client is None:
            record = record.noted(NOT_REVERIFIED)
        request = SweepRequest(max_delete_share=self._request.max_delete_share, confirm=confirm)
        try:
            return Sweep(self, self._resources, self.plan, record, request, lease).run()
        except LakesweepError as error:
            if self._resources.phases.saved_record is None:
                # Refused before its first round.
                resources, kind = self._resources, kind_of(error)
                ended = resources.ended(record, status_after(error), error.message, kind)
                resources.save_record(self.files.record, ended)
            raise

    def clock_readings(self, store_time: datetime) -> Iterator[ClockReading]:
        """Nessie's clock beside those of all stores."""
        return self.opened.clock_readings(self.found, store_time)

    def look_again(self, before: Sequence[Part] | None) -> Authorised:
        """Ask Nessie what became live since the mark, and take it out of what may be deleted."""
        now = self._ask_again()
        protection = self.found.folders.protection(self.tables, now.others, now.files)
        self._protection = protection
        # What a round before has authorised was judged by all that was found then.
        is_known = self.is_judged or before is not None
        known = [] if is_known else self.found.references()
        canaries = () if is_known else self.found.canaries()
        references = [*known, *now.items(), *self._gone()]
        parts = self.parts if before is None else before
        if not references:
            return Authorised(list(parts))
        with self._resources.phases.phase("re-verify") as step:
            folder = self.files
            judge = file_judge(self._resources.target, folder.verdicts, self.cutoff)
            judged = judge_files(
                self._table_reader,
                references,
                planned_parts(parts),
                protection,
                replace(judge, keep_live_rows=True),
                folder.manifests,
                canaries,
            )
            tallies = judged.tallies
            step.handled(judged.garbage_tally)
            step.said = f"still garbage: {judged.garbage_tally}; live again, and kept: {tallies[Verdict.LIVE]}"
        undone = "No further file was deleted."
        self.found.refuse_bad_manifests(judged.bad_manifests, undone, now.files)
        kept = KeptRows(
            revived=tallies[Verdict.LIVE],
            revived_parts=tuple(judged.kept),
            refused=tallies[Verdict.YOUNG] + tallies[Verdict.PROTECTED],
        )
        return Authorised(judged.garbage, tallies[Verdict.GONE], kept)

    def deleter(self) -> FileDeletion:
        """Deletes files that no folder protects."""
        return FileDeletion(
            self._table_reader.stores, self._protection, self.opened.reader.collected
        )

    def stopped(self, reason: str, progress: SweepProgress) -> str:
        """The message about a sweep that stopped half-way."""
        return f"The deletes of {self.texts.plan} stopped half-way: {reason} {self.texts.go_on}"

    def described(self, record: RunRecord, progress: SweepProgress) -> RunRecord:
        """The record with what is odd about live files, and what was kept."""
        record = with_notices(record, self.found)
        kept = progress.kept.refused + progress.tally(*self.kept_outcomes)
        if not kept.objects:
            return record
        found = (progress.examples.get(o, "") for o in (deleting.CHANGED, deleting.PROTECTED))
        example = next(filter(None, found), "")
        return record.noted(
            f"{kept} of the plan were kept: young, protected, or written anew"
            + (f" (for example {example})" if example else "")
        )

    def concluded(
        self, record: RunRecord, progress: SweepProgress, failure: LakesweepError | None
    ) -> RunRecord:
        """The record, which says in a sentence what failed, or that there was nothing to do."""
        if failure is not None:
            return replace(record, reason=failure.message)
        return record if self.parts else replace(record, status=RunStatus.NOTHING_TO_DO)

    def _ask_again(self) -> NewlyLive:
        if self._catalog is None:
            return NewlyLive()
        with self._resources.phases.phase("ask again") as step:
            now = self._catalog.look()
            step.items = len(now.states)
            step.said = f"{len(now.states)} contents became live since the mark"
        return now

    def _gone(self) -> list[ReferenceItem]:
        keys = self._resources.store.keys(self.files.gone)
        return [GoneFiles(key) for key in keys if key.endswith(".parquet")]
