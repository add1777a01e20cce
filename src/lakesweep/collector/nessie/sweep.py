"""Delete planned files in rounds: ask what is live now, delete while the answer is fresh, and again until all is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lakesweep.collector.judge.candidates import planned_parts
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger import deleting
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA, LedgerFolders, chunks_of
from lakesweep.collector.nessie.catalog_now import CatalogNow, NewlyLive
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.nessie.judging import file_judge, judge_files
from lakesweep.collector.nessie.list_folders import FILE_SCHEMA
from lakesweep.collector.nessie.places import Unreadable
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.references import GoneFiles, ReferenceItem
from lakesweep.collector.parts import Part, read_part
from lakesweep.collector.slow_rereads import NESSIE_ADVICE, too_slow
from lakesweep.domain.live_sets import LiveSet, LiveSetId
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import (
    LakesweepError,
    PartlySweptError,
    StorageError,
    UnsafeToSweepError,
)

_ROWS_PER_CHUNK = 10_000
_TRIES = 2
# On one core, with its look at the file and its place in the ledger.
_SECONDS_PER_DELETE = 1e-4
_NAMED_AT_MOST = 1000

_UNDONE = (deleting.DENIED, deleting.THROTTLED, deleting.FAILED)


@dataclass(slots=True)
class Swept:
    """What the rounds have done."""

    outcomes: dict[str, Tally] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    done_before: Tally = field(default_factory=Tally)
    revived: Tally = field(default_factory=Tally)
    revived_names: list[str] = field(default_factory=list)
    kept: Tally = field(default_factory=Tally)  # young or protected after all
    may_have_deleted: bool = False

    def tally(self, *outcomes: str) -> Tally:
        return sum((self.outcomes.get(o, Tally()) for o in outcomes), Tally())

    @property
    def failed(self) -> Tally:
        """Files that are still there and should not be."""
        return self.tally(*_UNDONE)

    @property
    def failures(self) -> dict[str, str]:
        """One example for each way of failing."""
        return {o: self.examples[o] for o in _UNDONE if self.tally(o).objects}


@dataclass(frozen=True, slots=True)
class FileSweep:
    """One sweep: what to delete, by which rules, and whom to ask whether it is still garbage."""

    context: NessieContext
    live_set_id: LiveSetId
    parts: Sequence[Part]
    protection: Callable[[NewlyLive], FolderIndex]  # told of contents seen now
    cutoff: datetime
    references: Sequence[ReferenceItem]  # empty where the parts have just been judged by them
    catalog: CatalogNow | None
    refuse_bad: Callable[[Mapping[str, Unreadable]], None]  # manifests that must be readable
    lease: Lease
    compare_clocks: Callable[[], None]  # raises where they are too far apart
    note_begin: Callable[[], None]

    def run(self, swept: Swept) -> None:
        """Delete all that is garbage still; `swept` says at every moment how far it came."""
        tries = slow_rounds = 0
        is_first = True
        margins = self.context.margins
        while True:
            began, first_phase = self.context.clock(), len(self.context.phases.done)
            read_at = self.lease.renew()
            self.compare_clocks()
            now = self._ask_again()
            protection = self.protection(now)
            parts = self._authorise(swept, now, protection, is_first=is_first)
            is_first = False
            if not parts:
                return
            self.note_begin()
            took = self.context.clock() - began
            valid_for = margins.authority_after(took)
            # Once more, now that the engine runs: the lease says where its tasks are, and outlives what they may do.
            self.lease.renew(margins.lease_life_for(valid_for))
            swept.may_have_deleted = True  # until the round says what it did
            with self.context.phases.phase("delete") as step:
                tried = self._delete(parts, read_at + valid_for, protection, swept)
                swept.may_have_deleted = (
                    swept.tally(deleting.DELETED) + swept.done_before
                ).objects > 0
                step.items = tried.get(deleting.DELETED, Tally()).objects
                step.said = ", ".join(f"{t.objects} {o}" for o, t in tried.items() if t.objects)
            off = tried.get(deleting.CLOCK_OFF, Tally()).objects
            left = tried.get(deleting.NOT_TRIED, Tally()).objects + off
            if off and left == sum(part.rows for part in parts):
                raise UnsafeToSweepError(
                    f"No executor could delete in time: {swept.examples[deleting.CLOCK_OFF]}. Nothing more was deleted.",
                    kind="clock-skew",
                )
            # The next look reads less: what is new to this one is known to it.
            slow_rounds = slow_rounds + 1 if left and left == sum(p.rows for p in parts) else 0
            if slow_rounds > 1:
                steps = self.context.phases.done[first_phase:]
                name = f"the catalog of live set {self.live_set_id}"
                raise too_slow(name, took, valid_for, steps, NESSIE_ADVICE)
            retriable = sum(
                tried.get(o, Tally()).objects for o in (deleting.THROTTLED, deleting.FAILED)
            )
            tries += 0 if left else 1
            if not left and (not retriable or tries >= _TRIES):
                return
            # The next round tries every file again that is still there, so only what is done stays counted.
            swept.outcomes = {o: t for o, t in swept.outcomes.items() if o in deleting.DONE}

    def _authorise(
        self, swept: Swept, now: NewlyLive, protection: FolderIndex, *, is_first: bool
    ) -> Sequence[Part]:
        """The rows that are garbage now: not deleted yet, and not live again."""
        references = [*self.references, *now.items(), *self._gone()]
        if not references:
            return self.parts
        with self.context.phases.phase("re-verify") as step:
            folder = SetFolder(self.live_set_id)
            judge = file_judge(self.context.target, folder.verdicts, self.cutoff)
            judge = replace(judge, keep_live_rows=True)
            judged = judge_files(
                self.context,
                references,
                planned_parts(self.parts),
                protection,
                judge,
                folder.manifests,
            )
            tallies = judged.tallies
            step.items = judged.garbage_tally.objects
            step.said = f"{judged.garbage_tally} still garbage, {tallies[Verdict.LIVE]} live again"
        self.refuse_bad(judged.bad_manifests)
        if is_first:
            swept.done_before = tallies[Verdict.GONE]
        swept.revived = tallies[Verdict.LIVE]
        swept.revived_names = self._names(judged.kept)
        swept.kept = tallies[Verdict.YOUNG] + tallies[Verdict.PROTECTED]
        return judged.garbage

    def _ask_again(self) -> NewlyLive:
        if self.catalog is None:
            return NewlyLive()
        with self.context.phases.phase("ask again") as step:
            now = self.catalog.look()
            step.items = len(now.states)
            step.said = f"{len(now.states)} contents became live since the mark"
        return now

    def _gone(self) -> list[ReferenceItem]:
        keys = self.context.store.keys(SetFolder(self.live_set_id).gone)
        return [GoneFiles(key) for key in keys if key.endswith(".parquet")]

    def _delete(
        self, parts: Sequence[Part], not_after: datetime, protection: FolderIndex, swept: Swept
    ) -> dict[str, Tally]:
        folder = SetFolder(self.live_set_id)
        skew = self.context.margins.clock_skew
        chunks = chunks_of(parts, not_after, _ROWS_PER_CHUNK, clock_skew=skew)
        deletion = FileDeletion(
            self.context.lake,
            self.context.target,
            LedgerFolders(ledger=folder.ledger, deleted=folder.gone),
            protection,
            self.context.record_of_collected,
        )
        tasks = tasks_for(len(chunks), self.context.engine.slots, at_most=self.context.most_tasks)
        seconds = sum(chunk.rows for chunk in chunks) * _SECONDS_PER_DELETE
        scatter = Scatter(chunks, deletion, DELETED_SCHEMA, tasks, seconds=seconds)
        rows = self.context.engine.collect(scatter)
        tried: dict[str, Tally] = {}
        for row in rows.to_pylist():
            tally = Tally(row["objects"], row["bytes"])
            tried[row["outcome"]] = tried.get(row["outcome"], Tally()) + tally
            swept.examples.setdefault(row["outcome"], row["example"])
        for outcome, tally in tried.items():
            swept.outcomes[outcome] = swept.outcomes.get(outcome, Tally()) + tally
        counted = sum(tally.objects for tally in tried.values())
        if counted != sum(part.rows for part in parts):
            raise UnsafeToSweepError(
                f"{sum(part.rows for part in parts)} files were to be deleted, {counted} have an outcome. "
                "No further file was deleted.",
                kind="not-conserved",
            )
        return tried

    def _names(self, parts: Sequence[Part]) -> list[str]:
        names: list[str] = []
        for part in parts:
            for batch in read_part(self.context.store.read(part.key), FILE_SCHEMA, part.key):
                names += batch.column("uri").to_pylist()
                if len(names) >= _NAMED_AT_MOST:
                    return names[:_NAMED_AT_MOST]
        return names


def refuse_incomplete(swept: Swept, live_set: LiveSet, command: str = "expire") -> None:
    """Raise when files that should be gone are still there; `command` is what goes on with it."""
    if not swept.failed.objects:
        return
    go_on = f"`lakesweep nessie {command} --live-set-id {live_set.id}` goes on."
    why = "; ".join(f"{outcome}: {example}" for outcome, example in swept.failures.items())
    said = f"{swept.failed} of live set {live_set.id} could not be deleted ({why})."
    done = swept.done_before + swept.tally("deleted")
    if done.objects:
        raise PartlySweptError(f"{said} {done} were. {go_on}", kind="keys-failed")
    raise StorageError(f"{said} Nothing was deleted. {go_on}", kind="keys-failed")


def partly_swept(
    error: LakesweepError, live_set: LiveSet, command: str = "expire"
) -> LakesweepError:
    """What a doubt or a failure is once something may have been deleted: its own class would say that nothing was."""
    if isinstance(error, PartlySweptError):
        return error
    return PartlySweptError(
        f"The deletes of live set {live_set.id} stopped half-way: {error.message} "
        f"`lakesweep nessie {command} --live-set-id {live_set.id}` goes on.",
        kind=error.kind,
    )
