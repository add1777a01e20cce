"""Files that a server wrote because a run asked it to, and that have served once they are read.

Each read of refs leaves a dump below `_lakefs/`, and each question for retained commits a CSV file. A note names them
with the time that the store gave them. They are removed when a run ends, unless somebody wrote them again since: a
dump of the same refs, made by a user, has the same names. One that was made before the note was written is told by the
manifest that it left.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from lakesweep.collector.lakefs.paths import GC, OWN
from lakesweep.domain.durations import format_time
from lakesweep.errors import FormatError, LakesweepError, ObjectNotFoundError
from lakesweep.formats.refs_dump import MANIFEST_KEY, RefsManifest, dump_files
from lakesweep.formats.sstable import open_table
from lakesweep.formats.xid import new_xid
from lakesweep.json_text import parse_json
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
    notes = list(store.keys(_NOTES))
    users = _users_dump(store) if notes else None
    for note, data in store.read_many(notes):
        times = _noted_times(note, data)
        removable = [
            key
            for key, info in store.stat_many(list(times))
            if info is not None
            and info.last_modified is not None
            and format_time(info.last_modified) == times[key]
            and _is_servers_answer(store, key, users)
        ]
        store.delete_many([*removable, note])
        removed += len(removable)
    return removed


def _users_dump(store: ObjectStore) -> frozenset[str] | None:
    """The files that the manifest names: runs put it back, so they are a user's. None where it can't be told."""
    try:
        manifest = RefsManifest.decode(store.read(MANIFEST_KEY))
        return frozenset(dump_files(store.read, manifest))
    except ObjectNotFoundError:
        # Nobody has dumped, or the user's dump lacks files and can't be restored from.
        return frozenset()
    except FormatError as error:
        logger.warning("files of refs dumps stay, as the user's own can't be read: %s", error)
        return None


def _noted_times(note: str, data: bytes) -> Mapping[str, str]:
    try:
        times = parse_json(data)
        return {str(key): str(time) for key, time in times.items()}
    except (ValueError, AttributeError) as error:
        logger.warning("%s can't be read (%s): the files that it names stay", note, error)
        return {}


def _is_servers_answer(store: ObjectStore, key: str, users: frozenset[str] | None) -> bool:
    """Whether the file is what it was noted as, and none of a user's. Ranges of data lie in the same folder as dumps."""
    if _COMMITS_FILE.fullmatch(key):
        return True
    if users is None or key in users or not _DUMP_FILE.fullmatch(key):
        return False
    try:
        return "entity" in open_table(store.read(key)).properties.user
    except LakesweepError as error:
        logger.warning("%s stays: %s", key, error.message)
        return False
