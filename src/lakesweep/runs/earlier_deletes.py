"""Of the objects that a sweep found gone already: which of them earlier runs of ours have deleted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.engine.cells import Hashes
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import open_parquet
from lakesweep.runs.paths import RunId
from lakesweep.runs.saved import event_files
from lakesweep.runs.work.deleting import ALREADY_GONE, DELETED
from lakesweep.runs.work.references import GONE
from lakesweep.storage import ObjectStore


def count_deleted_by_us(store: ObjectStore, run_id: RunId) -> int:
    """How many of the objects that this run found gone had been deleted by another run of ours, and not restored."""
    own = {event.key for event in event_files(store, run_id) if event.kind == GONE}
    found_gone = [_hashes(store, key, {ALREADY_GONE, None}) for key in own]
    missing = np.unique(np.concatenate(found_gone)) if found_gone else np.empty(0, np.uint64)
    is_ours = np.zeros(len(missing), dtype=bool)
    for event in sorted(event_files(store), key=lambda event: event.order):
        if event.key not in own:
            wanted = {DELETED} if event.kind == GONE else {None}
            is_ours[np.isin(missing, _hashes(store, event.key, wanted))] = event.kind == GONE
    return int(is_ours.sum())


def _hashes(store: ObjectStore, key: str, outcomes: Collection[str | None]) -> Hashes:
    """The addresses of an event's rows with these outcomes; None stands for files that tell of no outcome."""
    try:
        rows = open_parquet(store.read(key)).read()
    except (ObjectNotFoundError, FormatError, pa.ArrowException):
        return np.empty(0, np.uint64)  # it only words a note, so nothing is claimed
    if "outcome" in rows.schema.names:
        wanted = [outcome for outcome in outcomes if outcome is not None]
        rows = rows.filter(
            pc.is_in(rows.column("outcome"), value_set=pa.array(wanted, pa.string()))
        )
    elif None not in outcomes:
        return np.empty(0, np.uint64)
    return hash_addresses(rows.column("address"))
