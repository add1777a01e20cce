"""Progress in a file, for programs that show it: the last snapshot as JSON, always a whole one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from lakesweep.progress.snapshot import ProgressSnapshot

__all__ = ["FileSink"]

_EVERY_SECONDS = 1.0


class FileSink:
    """Writes the file anew, at most once a second and whenever nothing is under way."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._next_at = clock()

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Put the snapshot in the place of the last one, if it is time."""
        if self._clock() < self._next_at and snapshot.running is not None:
            return
        self._next_at = self._clock() + _EVERY_SECONDS
        draft = self._path.with_name(f"{self._path.name}.new")
        draft.write_text(json.dumps(snapshot.as_json()))
        draft.replace(self._path)
