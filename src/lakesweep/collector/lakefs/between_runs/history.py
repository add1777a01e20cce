"""The runs that a repository has seen: listed, shown, and forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.collector.lakefs.paths import (
    RUNS,
    RunFolder,
    mark_folder,
    mark_record,
    parse_run_id,
    uncommitted_folder,
)
from lakesweep.collector.record import RunRecord, decode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.errors import ConfigError, FormatError, ObjectNotFoundError, StorageError
from lakesweep.storage import DeleteStatus, ObjectStore


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A run whose record can't be read, or that was killed before it had one."""

    run_id: str
    why: str


def list_runs(store: ObjectStore) -> list[RunRecord | DamagedRun]:
    """Every run, the newest first, damaged ones last."""
    ids = [folder.removeprefix(RUNS).rstrip("/") for folder in store.list_folder(RUNS).folders]
    keys = {RunFolder(RunId(run_id)).record: run_id for run_id in ids}
    known = [key for key, info in store.stat_many(list(keys)) if info is not None]
    records: list[RunRecord] = []
    damaged = [DamagedRun(keys[key], "it left no record") for key in keys if key not in known]
    for key, data in store.read_many(known):
        try:
            records.append(decode_record(data, key))
        except FormatError as error:
            damaged.append(DamagedRun(keys[key], error.message))
    records.sort(key=lambda record: (record.started_at, record.run_id), reverse=True)
    return [*records, *sorted(damaged, key=lambda run: run.run_id)]


def load_run(store: ObjectStore, repository: str, run_id: str) -> RunRecord:
    """The record of one run.

    Raises:
        ConfigError: there is no such run.
        FormatError: its record is damaged.
    """
    key = RunFolder(parse_run_id(run_id)).record
    try:
        return decode_record(store.read(key), key)
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"{repository} has no run {run_id}. Nothing was touched. `lakesweep runs list` shows the runs.",
            kind="no-run",
        ) from error


def forget_run(store: ObjectStore, repository: str, run_id: str) -> int:
    """Remove a run's files and its mark, and count them. What it deleted stays known, so no later mark names it again.

    Raises:
        ConfigError: there is no such run.
        StorageError: a file could not be removed.
    """
    own = parse_run_id(run_id)
    record = RunFolder(own).record
    keys = files_of_run(store, own)
    if not keys:
        raise ConfigError(
            f"{repository} has no run {run_id}. Nothing was removed. `lakesweep runs list` shows the runs.",
            kind="no-run",
        )
    # The record goes last: a run that was only half forgotten can be forgotten again.
    _remove(store, repository, run_id, [key for key in keys if key != record])
    _remove(store, repository, run_id, [record])
    return len(keys)


def files_of_run(store: ObjectStore, run_id: RunId) -> list[str]:
    """Keys of a run's files, of its mark, and of the server's list that was made for it."""
    folders = [*_mark_of(store, run_id), uncommitted_folder(run_id), RunFolder(run_id).root]
    return [key for folder in folders for key in store.keys(folder)]


def _remove(store: ObjectStore, repository: str, run_id: str, keys: list[str]) -> None:
    done = (DeleteStatus.GONE, DeleteStatus.ALREADY_ABSENT)
    left = [outcome for outcome in store.delete_many(keys) if outcome.status not in done]
    if left:
        raise StorageError(
            f"{len(left)} of {len(keys)} files of run {run_id} of {repository} could not be removed, the first: "
            f"{left[0].key} ({left[0].detail or left[0].status.value}). Run it again.",
            kind="not-forgotten",
        )


def _mark_of(store: ObjectStore, run_id: RunId) -> list[str]:
    """Folders of the run's mark; a copy run has a mark's id in its record and no mark of its own."""
    try:
        record = decode_record(store.read(RunFolder(run_id).record), run_id)
    except (ObjectNotFoundError, FormatError):
        # What such a run marked is not known; a mark without its plan can't be swept.
        return []
    if not record.plan_id:
        return []
    mark_id = MarkId(record.mark_id)
    return [mark_folder(mark_id), mark_record(mark_id)]
