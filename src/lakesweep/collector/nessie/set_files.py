"""The files that runs on a live set keep in a work location."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.lease import Lease
from lakesweep.collector.run_files import RunFiles
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import StorageError
from lakesweep.storage import DeleteStatus, ObjectStore

_GONE = (DeleteStatus.GONE, DeleteStatus.ALREADY_ABSENT)


@dataclass(frozen=True, slots=True)
class SetFolder(RunFiles):
    """The files of the runs on one live set, relative to the work location."""

    live_set_id: LiveSetId

    @property
    def root(self) -> str:
        return f"{self.live_set_id}/"

    @property
    def manifests(self) -> str:
        return f"{self.root}manifests/"


def has_files(store: ObjectStore, live_set_id: LiveSetId) -> bool:
    """Whether a run on that set has written anything there."""
    return next(store.keys(SetFolder(live_set_id).root), None) is not None


def delete_set(live_sets: LiveSetStore, store: ObjectStore, live_set_id: LiveSetId) -> int:
    """Remove a live set, and its files in the work location; returns how many those were.

    Raises:
        UnsafeToSweepError: a run works on the set; nothing was removed.
        StorageError: the set is gone, and some of its files are not.
    """
    folder = SetFolder(live_set_id).root
    if not has_files(store, live_set_id):
        live_sets.delete(live_set_id)
        return 0
    what = f"the files of live set {live_set_id}"
    with Lease(store, what, f"removal of live set {live_set_id}", folder=folder):
        live_sets.delete(live_set_id)
    outcomes = store.delete_many(list(store.keys(folder)))
    left = [outcome for outcome in outcomes if outcome.status not in _GONE]
    if left:
        raise StorageError(
            f"Live set {live_set_id} is deleted, and {len(left)} of its files in {store.root.uri}/{folder} could not be "
            f"({left[0].key}: {left[0].detail}). Nothing needs them: remove that folder by other means.",
            kind="files-left",
        )
    return len(outcomes)
