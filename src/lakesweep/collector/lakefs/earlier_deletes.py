"""Of the objects that a sweep found gone already: which of them our runs, or the server itself, have deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.bitmap import Mask
from lakesweep.collector.judge.references import GONE
from lakesweep.collector.lakefs.between_runs.saved import event_files
from lakesweep.collector.ledger.deleting import ALREADY_GONE, DELETED
from lakesweep.collector.parts import EVENT_SCHEMA, read_events
from lakesweep.collector.run_files import RunId
from lakesweep.engine.cells import Hashes
from lakesweep.errors import CatalogError, FormatError, ObjectNotFoundError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import ObjectStore

logger = logging.getLogger(__name__)

# Of more than so many the server is not asked: a request names a few hundred.
_MOST_ASKED = 10_000


def said_of_gone(
    store: ObjectStore,
    run_id: RunId,
    gone: int,
    deleted_by_server: Callable[[Sequence[str]], Collection[str]],
) -> str:
    """Who deleted the objects that this run found gone: runs of ours, the server by itself, or somebody else.

    `deleted_by_server` tells which of these addresses the server has deleted; it only words a note, so it may fail.
    """
    missing = _missing(store, run_id)
    is_ours = _are_deleted_by_us(store, run_id, hash_addresses(missing))
    ours = min(gone, int(is_ours.sum()))
    rest = missing.filter(pa.array(~is_ours)).to_pylist()
    server: int | None = None  # nobody has said
    if len(rest) <= _MOST_ASKED:
        try:
            server = min(gone - ours, len(deleted_by_server(rest)))
        except CatalogError as error:
            logger.info("the server does not tell what it has deleted: %s", error)
    parts = [f"{ours} had been deleted by lakesweep"]
    parts += [f"{server} by the server's own hard delete"] if server else []
    others = "somebody else" if server is not None else "somebody else or the server itself"
    parts.append(f"{gone - ours - (server or 0)} by {others}")
    said = f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"of {gone} objects that were already gone, {said}"


def _missing(store: ObjectStore, run_id: RunId) -> pa.StringArray:
    """The addresses that this run found gone, each once."""
    own = [event.key for event in event_files(store, run_id) if event.kind == GONE]
    found = [_addresses(store, key, {ALREADY_GONE, None}) for key in own]
    return pa.chunked_array(found, pa.string()).unique()


def _are_deleted_by_us(store: ObjectStore, run_id: RunId, missing: Hashes) -> Mask:
    """Which of these were deleted by a run of ours, and not restored."""
    own = {event.key for event in event_files(store, run_id) if event.kind == GONE}
    is_ours = np.zeros(len(missing), dtype=bool)
    for event in sorted(event_files(store), key=lambda event: event.order):
        if event.key not in own:
            wanted = {DELETED} if event.kind == GONE else {None}
            named = hash_addresses(_addresses(store, event.key, wanted))
            is_ours[np.isin(missing, named)] = event.kind == GONE
    for key in own:
        # By another attempt of the task that found them gone.
        is_ours[np.isin(missing, hash_addresses(_addresses(store, key, {DELETED})))] = True
    return is_ours


def _addresses(store: ObjectStore, key: str, outcomes: Collection[str | None]) -> pa.StringArray:
    """The addresses in an event file whose outcome is one of these; None stands for rows without an outcome."""
    try:
        rows = pa.Table.from_batches(read_events(store.read(key), key), schema=EVENT_SCHEMA)
    except (ObjectNotFoundError, FormatError):
        return pa.array([], pa.string())  # it only words a note, so nothing is claimed
    wanted = pa.array(list(outcomes), pa.string())
    return rows.filter(pc.is_in(rows.column("outcome"), wanted)).column("address").combine_chunks()
