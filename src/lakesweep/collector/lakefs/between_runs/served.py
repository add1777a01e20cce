"""Files that a server wrote because a run asked it to, and that have served once they are read.

Each read of refs leaves a dump below `_lakefs/`, and each question for retained commits a CSV file. A note names them
with the time that the store gave them. They are removed when a run ends, unless somebody wrote them again since: a
dump of the same refs, made by a user, has the same names.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from lakesweep.collector.lakefs.paths import GC, OWN
from lakesweep.domain.durations import format_time
from lakesweep.errors import LakesweepError
from lakesweep.formats.sstable import open_table
from lakesweep.formats.xid import new_xid
from lakesweep.storage import ObjectStore

__all__ = ["note_served", "remove_served"]

logger = logging.getLogger(__name__)

_NOTES = f"{OWN}served/"
_DUMP_FILE = re.compile(r"_lakefs/[0-9a-f]{64}")
_COMMITS_FILE = re.compile(rf"{re.escape(GC)}commits/[^/]+/[^/]+")


def note_served(store: ObjectStore, keys: Sequence[str], at: datetime) -> None:
    """Write down files that were read and are not needed again."""
    times = {
        key: format_time(info.last_modified)
        for key, info in store.stat_many(list(keys))
        if info is not None and info.last_modified is not None
    }
    if times:
        store.write(f"{_NOTES}{new_xid(at)}.json", json.dumps(times).encode())


def remove_served(store: ObjectStore) -> int:
    """Remove what was written down, and is still as it was then; returns the number of files."""
    removed = 0
    for note, data in store.read_many(list(store.keys(_NOTES))):
        times = _noted_times(note, data)
        removable = [
            key
            for key, info in store.stat_many(list(times))
            if info is not None
            and info.last_modified is not None
            and format_time(info.last_modified) == times[key]
            and _is_servers_answer(store, key)
        ]
        store.delete_many([*removable, note])
        removed += len(removable)
    return removed


def _noted_times(note: str, data: bytes) -> Mapping[str, str]:
    try:
        times = json.loads(data)
        return {str(key): str(time) for key, time in times.items()}
    except (ValueError, AttributeError) as error:
        logger.warning("%s can't be read (%s): the files that it names stay", note, error)
        return {}


def _is_servers_answer(store: ObjectStore, key: str) -> bool:
    """Whether the file is what it was noted as. Ranges of data lie in the same folder as dumps."""
    if _COMMITS_FILE.fullmatch(key):
        return True
    if not _DUMP_FILE.fullmatch(key):
        return False
    try:
        return "entity" in open_table(store.read(key)).properties.user
    except LakesweepError as error:
        logger.warning("%s stays: %s", key, error.message)
        return False
