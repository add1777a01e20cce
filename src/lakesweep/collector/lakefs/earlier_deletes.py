"""Of the objects that a sweep found gone already: which of them earlier runs of ours have deleted."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.references import GONE
from lakesweep.collector.lakefs.between_runs.saved import event_files
from lakesweep.collector.ledger.deleting import ALREADY_GONE, DELETED
from lakesweep.collector.parts import EVENT_SCHEMA, read_events
from lakesweep.collector.run_files import RunId
from lakesweep.engine.cells import Hashes
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import ObjectStore


def count_deleted_by_us(store: ObjectStore, run_id: RunId) -> int:
    """How many of the objects that this run found gone had been deleted by a run of ours, and not restored."""
    own = {event.key for event in event_files(store, run_id) if event.kind == GONE}
    found_gone = [_hashes(store, key, {ALREADY_GONE, None}) for key in own]
    missing = np.unique(np.concatenate(found_gone)) if found_gone else np.empty(0, np.uint64)
    is_ours = np.zeros(len(missing), dtype=bool)
    for event in sorted(event_files(store), key=lambda event: event.order):
        if event.key not in own:
            wanted = {DELETED} if event.kind == GONE else {None}
            is_ours[np.isin(missing, _hashes(store, event.key, wanted))] = event.kind == GONE
    for key in own:
        # By another attempt of the task that found them gone.
        is_ours[np.isin(missing, _hashes(store, key, {DELETED}))] = True
    return int(is_ours.sum())


def _hashes(store: ObjectStore, key: str, outcomes: Collection[str | None]) -> Hashes:
    """Hashes of the addresses in an event file whose outcome is one of these; None stands for rows without an outcome."""
    try:
        rows = pa.Table.from_batches(read_events(store.read(key), key), schema=EVENT_SCHEMA)
    except (ObjectNotFoundError, FormatError):
        return np.empty(0, np.uint64)  # it only words a note, so nothing is claimed
    wanted = pa.array(list(outcomes), pa.string())
    return hash_addresses(rows.filter(pc.is_in(rows.column("outcome"), wanted)).column("address"))
