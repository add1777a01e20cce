"""What earlier sweeps did to files: which of them deleted one, and which lists of recorded files have one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.ledger.deleting import OUTCOME_SCHEMA
from lakesweep.collector.nessie.collected import find_collected
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.domain.explanations import Deletion
from lakesweep.domain.file_names import fold
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.errors import FormatError
from lakesweep.storage import ObjectStore

__all__ = ["find_deferred", "find_deletions"]


def find_deletions(
    store: ObjectStore, record_of_collected: Target, uris: Sequence[str]
) -> dict[str, Deletion]:
    """Which sweep deleted each file, by the files of sweeps in the work location; the last one counts."""
    found: dict[str, Deletion] = {}
    if not uris:
        return found
    wanted = pa.array(sorted(set(uris)), pa.string())
    for folder in store.list_folder("").folders:
        live_set_id = LiveSetId(folder.strip("/"))
        for key in store.keys(SetFolder(live_set_id).gone):
            for batch in read_part(store.read(key), OUTCOME_SCHEMA, key):
                rows = batch.filter(pc.is_in(batch.column("address"), value_set=wanted))
                for row in rows.to_pylist():
                    known = found.get(row["address"])
                    if known is None or (known.at is not None and known.at < row["at"]):
                        found[row["address"]] = Deletion(live_set_id, row["at"], live_set_id)
    left = [uri for uri in uris if uri not in found]
    for uri in find_collected(record_of_collected.open(), left):
        found[uri] = Deletion("")  # the files of its live set are gone
    return found


def find_deferred(live_sets: LiveSetStore, uris: Sequence[str]) -> dict[str, list[str]]:
    """Live sets whose lists of files to delete later have these files."""
    wanted = {folded: uri for uri in uris if (folded := _folded(uri)) is not None}
    found: dict[str, list[str]] = {}
    for live_set in live_sets.all():
        if live_set.status is not LiveSetStatus.EXPIRY_SUCCESS:
            continue
        for file in live_sets.deferred(live_set.id):
            uri = wanted.get(_folded(file.uri) or "")
            if uri is not None:
                found.setdefault(uri, []).append(live_set.id)
    return found


def _folded(uri: str) -> str | None:
    try:
        return fold(uri)
    except FormatError:
        return None
