"""Retention of our own files: runs beyond the newest, working files, files that a server wrote for us, events.

Nothing is removed that a later run builds on, that a sweep goes on with, or that a restore needs to know what a backup
holds. Only files that runs of ours left are looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from lakesweep.collector.lakefs.between_runs.compaction import compact_deletions
from lakesweep.collector.lakefs.between_runs.history import (
    DamagedRun,
    files_of_run,
    forget_run,
    list_runs,
)
from lakesweep.collector.lakefs.between_runs.saved import SavedRun, load_for_sweep, load_last_run
from lakesweep.collector.lakefs.between_runs.served import remove_served
from lakesweep.collector.lakefs.paths import REPORTS, RunFolder
from lakesweep.collector.lease import Lease
from lakesweep.collector.record import BACKUP, RunRecord, RunStatus
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import RunId
from lakesweep.errors import LakesweepError
from lakesweep.progress import human_count
from lakesweep.storage import ObjectStore

__all__ = ["KEEP_DAYS", "Pruned", "prune_own_files", "tidy_up"]

logger = logging.getLogger(__name__)

KEEP_DAYS = 90
_FINISHED = (
    RunStatus.SWEPT,
    RunStatus.NOTHING_TO_DO,
    RunStatus.UNDECIDED,
    RunStatus.BACKED_UP,
    RunStatus.RESTORED,
)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be: runs, and files in all; event files that became few."""

    runs: tuple[str, ...] = ()
    files: int = 0
    compacted: int = 0

    def as_json(self) -> dict[str, object]:
        """Plain JSON values."""
        return {"schema": "lakesweep.pruned/1", **asdict(self)}


def tidy_up(resources: Resources, keep_runs: int, lease: Lease) -> None:
    """Prune after a run, under its lease. What can't be removed now is left to the next run."""
    try:
        # Whoever has taken the lease over may be writing what looks surplus here.
        lease.assert_held()
        # By the store's clock: a run that was refused because this machine's is wrong comes here, too.
        now = lease.store_time or resources.clock()
        pruned = prune_own_files(resources, keep_runs, now)
    except LakesweepError as error:
        logger.warning("repo#%s files of earlier runs stay: %s", resources.name, error.message)
        return
    if pruned.files:
        runs = f", all of {human_count(len(pruned.runs), 'runs')} among them" if pruned.runs else ""
        said = "repo#%s removed %s of ours that no later run needs%s"
        logger.info(said, resources.name, human_count(pruned.files, "files"), runs)


def prune_own_files(
    resources: Resources, keep_runs: int, now: datetime, *, dry_run: bool = False
) -> Pruned:
    """Remove what no later run needs; a dry run only counts runs and their files."""
    store = resources.store
    found = list_runs(store)
    records = [run for run in found if not isinstance(run, DamagedRun)]
    surplus = _surplus_runs(store, records, keep_runs, now)
    kept = [record for record in records if record.run_id not in surplus]
    working = _working_files(
        store, [run.run_id for run in found if run.run_id not in surplus], kept
    )
    pruned = Pruned(
        runs=surplus,
        files=len(working) + sum(len(files_of_run(store, RunId(run_id))) for run_id in surplus),
    )
    if dry_run:
        return pruned
    store.delete_many(working)
    for run_id in surplus:
        forget_run(store, resources.name, run_id)
    served = remove_served(store)
    # A damaged run counts as unfinished: nobody can say that no sweep goes on with it.
    unfinished = {run.run_id for run in found} - {r.run_id for r in records if _is_finished(r)}
    compacted = compact_deletions(store, unfinished, now)
    return replace(pruned, files=pruned.files + served, compacted=compacted)


def _surplus_runs(
    store: ObjectStore, records: Sequence[RunRecord], most: int, now: datetime
) -> tuple[str, ...]:
    """Runs that are not among the newest, or too old, and that nothing refers to; the newest is always kept."""
    last = load_last_run(store)
    # A job without a server names the mark by its folder.
    backed_up = {_mark_folder(record) for record in records if record.flow == BACKUP}
    oldest = now - timedelta(days=KEEP_DAYS)
    surplus = []
    for number, record in enumerate(records):
        is_new = number == 0 or (number < most and record.started_at >= oldest)
        # A resumed sweep reads its plan, an optimised run what the last one saved, and a restore the mark.
        is_needed = (
            record.status is RunStatus.PARTLY_SWEPT
            or (isinstance(last, SavedRun) and record.run_id == last.run_id)
            or _has_backup(record)
            or (_mark_folder(record) in backed_up)
        )
        if not is_new and not is_needed:
            surplus.append(record.run_id)
    return tuple(surplus)


def _mark_folder(record: RunRecord) -> str:
    """The URI of the mark's folder, in one spelling."""
    return record.mark.rstrip("/")


def _has_backup(record: RunRecord) -> bool:
    """Whether a sweep copied what it deleted: a restore then needs the mark."""
    # Records of older versions tell it by their phases alone, which are those of the last try.
    return record.has_copies or any(phase.name == BACKUP for phase in record.phases)


def _is_finished(record: RunRecord) -> bool:
    """Whether no sweep can go on with the run."""
    return record.status in _FINISHED or not record.plan_id


def _working_files(
    store: ObjectStore, run_ids: Sequence[str], records: Sequence[RunRecord]
) -> list[str]:
    """Listings and verdicts that no later run or sweep reads, and reports that tasks left behind."""
    needed = set(_needed_files(store, records))
    runs = (RunFolder(RunId(run_id)) for run_id in run_ids)
    folders = [REPORTS, *(folder for run in runs for folder in (run.listing, run.verdicts))]
    return [key for folder in folders for key in store.keys(folder) if key not in needed]


def _needed_files(store: ObjectStore, records: Sequence[RunRecord]) -> Iterator[str]:
    """What the next run builds on, also if it is a sweep of an earlier mark that makes it so."""
    unfinished = [RunId(record.run_id) for record in records if not _is_finished(record)]
    for saved in (load_last_run(store), *(load_for_sweep(store, run) for run in unfinished)):
        if isinstance(saved, SavedRun):
            yield from saved.files
