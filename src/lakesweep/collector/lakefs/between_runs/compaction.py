"""Fewer files of deletions: each sweep leaves some, and every mark over expired commits reads them all.

Small files are written together into one. What was restored after its deletion is left out, so that the later order of
the new file changes nothing. Restorations stay as they are: they are few, and their time is an age.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.references import GONE, RESTORED
from lakesweep.collector.lakefs.between_runs.saved import EVENT_FILE, event_files
from lakesweep.collector.lakefs.paths import EVENTS, events_folder
from lakesweep.collector.lakefs.references import EventFile
from lakesweep.collector.parts import EVENT_SCHEMA, PartWriter, read_addresses, read_events
from lakesweep.formats.xid import new_xid
from lakesweep.storage import ObjectStore

__all__ = ["compact_deletions", "small_deletion_files"]

MOST_SMALL_FILES = 50
_SMALL_BYTES = 8_000_000


def small_deletion_files(store: ObjectStore, unfinished: Collection[str]) -> list[EventFile]:
    """Small files of deletions by runs that are not going on: those tell by their own files what they did."""
    found = []
    for batch in store.list(EVENTS):
        keys, sizes = (batch.column(name).to_pylist() for name in ("key", "size"))
        for key, size in zip(keys, sizes, strict=True):
            name = EVENT_FILE.fullmatch(key.removeprefix(EVENTS))
            if name is None or name["kind"] != "gone" or name["run"] in unfinished:
                continue
            if size <= _SMALL_BYTES:
                found.append(EventFile(key, GONE, int(name["order"])))
    return found


def compact_deletions(store: ObjectStore, unfinished: Collection[str], at: datetime) -> int:
    """Write many small files of deletions as one; returns how many were replaced."""
    small = small_deletion_files(store, unfinished)
    if len(small) <= MOST_SMALL_FILES:
        return 0
    restored = [
        (event.order, list(read_addresses(store.read(event.key), event.key)))
        for event in event_files(store)
        if event.kind == RESTORED
    ]
    folder = events_folder(max(d.order for d in small), "gone", f"compacted-{new_xid(at)}")
    writer = PartWriter(store, folder, "gone", EVENT_SCHEMA)
    for deletions in small:
        later = [c for order, found in restored if order >= deletions.order for c in found]
        came_back = pa.chunked_array(later, pa.string()).combine_chunks()
        for rows in read_events(store.read(deletions.key), deletions.key):
            writer.add(rows.filter(pc.invert(pc.is_in(rows.column("address"), came_back))))
    writer.close()
    # Last: until then a deletion is told twice, which is no more than once.
    store.delete_many([deletions.key for deletions in small])
    return len(small)
