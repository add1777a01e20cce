"""Whether processes that a driver started still live after it: found by a mark in the environment that all inherit."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

VARIABLE = "LAKESWEEP_PROCESS_TREE"
# Of an engine whose tasks are threads of the driver: no other process carries it.
NO_OTHER_PROCESS = "driver-only"


_marks: dict[int, str] = {}  # by process id, since a forked process is another


def mark_process_tree() -> str:
    """Let all processes that this one starts from now on carry one mark, which is not that of its own parent."""
    mark = os.environ[VARIABLE] = _marks.setdefault(os.getpid(), uuid.uuid4().hex)
    return mark


def own_process_tree() -> str:
    """This process's mark, if a process that it started carries it; else empty, and nothing is known of such processes.

    A JVM that was there before the mark does not carry it, and neither do its workers.
    """
    mark = _marks.get(os.getpid(), "")
    return mark if mark and is_process_left(mark) else ""


def is_process_left(mark: str) -> bool:
    """Whether a process of this machine carries the mark, this one aside."""
    sought = f"{VARIABLE}={mark}".encode()
    own = str(os.getpid())
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == own:
            continue
        try:
            words = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # gone by now, or another user's
        if sought in words:
            return True
    return False
