"""Half-written files that a killed process left in a folder of objects: found and removed a little at a time."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice

from lakesweep.storage.local_walk import TEMPORARY_PREFIX

__all__ = ["Leftovers"]

_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{16}")


class Leftovers:
    """Walks one folder tree, entry by entry, and begins anew when it is through. Follows no link."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._entries: Iterator[os.DirEntry[str]] = iter(())

    def remove_some(self, last_written_before: float, most_entries: int) -> None:
        """Look at up to `most_entries`, and remove the half-written files that nobody wrote to since a time."""
        seen = 0
        for entry in islice(self._entries, most_entries):
            seen += 1
            if _TEMPORARY.fullmatch(entry.name):
                _remove_if_old(entry.path, last_written_before)
        if seen < most_entries:
            self._entries = _walk(self._root)


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path)
    except OSError:
        # Gone meanwhile, or not ours to read: then nothing of it is removed.
        return


def _remove_if_old(path: str, last_written_before: float) -> None:
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and status.st_mtime < last_written_before:
            os.unlink(path)
    except OSError:
        # Put in place or removed meanwhile, or not ours to remove; the next walk looks again.
        return
