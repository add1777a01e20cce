"""The lists that collections were given, removed when no collection can want them any more."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.formats.xid import descending_xid_time, is_xid
from lakesweep.lake.context import LakeContext
from lakesweep.lake.values import Repository
from lakesweep.storage import ObjectStore

_FOLDERS = (
    # Where the runs lie, what stands before a run's id, and the list in it. A collector's own files lie beside.
    ("_lakefs/retention/gc/uncommitted/", "", "uncommitted/"),
    ("_lakefs/retention/gc/commits/", "run_id=", "commits.csv"),
)
_MOST_RUNS = 50
_ROUND = timedelta(hours=1)


def remove_old_lists(context: LakeContext, repository: Repository, now: datetime) -> None:
    """Remove lists older than twice the time that a collection may take; in one round only those of so many runs."""
    store = context.store(repository)
    oldest_kept = now - 2 * context.settings.copy_life
    for folder, before_id, listed in _FOLDERS:
        runs = [
            run
            for run in store.list_folder(folder).folders
            if _began_before(run.removeprefix(folder + before_id).rstrip("/"), oldest_kept)
        ]
        # A folder stays while a collector's own files are in it, so each round looks at other ones.
        first = int(now.timestamp() // _ROUND.total_seconds()) * _MOST_RUNS % max(1, len(runs))
        for run in runs[first : first + _MOST_RUNS]:
            _remove(store, run + listed)


def _began_before(run_id: str, time: datetime) -> bool:
    return is_xid(run_id) and descending_xid_time(run_id) < time


def _remove(store: ObjectStore, prefix: str) -> None:
    if keys := list(store.keys(prefix)):
        store.delete_many(keys)
