"""The version of what lies in the ref store, so that no program works on records it does not understand."""

from __future__ import annotations

from lakesweep.errors import ConfigError
from lakesweep.lake.kv.interface import KeyValueStore

FORMAT_VERSION = 2
# Format 2 has packed records, and in SQLite long values in a table of their own. All else is as in format 1.
_RAISED = b"1"

_PARTITION = "lake"
_KEY = b"format-version"
# What every store has that a lake ran on, also before stores had a version.
_OLD_PARTITIONS = ("auth", "graveler")


def check_format(kv: KeyValueStore) -> None:
    """Mark an empty store with our version, and one that we read as it is; refuse a store with another one.

    Raises:
        ConfigError: the store was written by a newer lakesweep, or by one from before stores had a version.
    """
    if kv.get(_PARTITION, _KEY) is None and not any(kv.page(p, limit=1) for p in _OLD_PARTITIONS):
        kv.set_if(_PARTITION, _KEY, str(FORMAT_VERSION).encode(), None)
    if kv.get(_PARTITION, _KEY) == _RAISED:
        # Before anything is written that an older lakesweep would take for something else.
        kv.set_if(_PARTITION, _KEY, str(FORMAT_VERSION).encode(), _RAISED)
    found = kv.get(_PARTITION, _KEY)
    if found is None:
        raise ConfigError(
            "The ref store was written before stores had a format version. Nothing was changed. Dump its"
            " repositories with the lakesweep that wrote it (`lakectl refs-dump`), and restore them into a new lake.",
            kind="format",
        )
    version = int(found) if found.isdigit() else -1
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"The ref store has format {found.decode(errors='replace')}, and this lakesweep reads format"
            f" {FORMAT_VERSION}. Nothing was changed; use the lakesweep that wrote it, or a newer one.",
            kind="format",
        )
