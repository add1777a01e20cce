"""Addresses for new objects: `data/<slice>/<object>`.

A slice is written by one process only, so it can count what it put there. Slice ids sort newest first: a collector that
lists `data/` meets the young slices at once and can stop at the first one it knows.
"""

from __future__ import annotations

import os
import threading
from datetime import datetime

from lakesweep.formats.xid import new_descending_xid, new_xid
from lakesweep.lake.context import LakeContext


class Slices:
    """This process's current slice. A new one begins after `slice_max_age` or `slice_max_size` objects."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._slice = ""
        self._began_at: datetime | None = None
        self._count = 0
        self._process_id = 0
        self.begun = 0

    def new_address(self) -> str:
        """A new address, relative to any namespace."""
        now = self._context.now()
        with self._lock:
            if self._is_over(now):
                self._slice = new_descending_xid(now)
                self._began_at = now
                self.begun += 1
                self._count = 0
                self._process_id = os.getpid()
            self._count += 1
            return f"data/{self._slice}/{new_xid(now)}"

    def _is_over(self, now: datetime) -> bool:
        settings = self._context.settings
        return (
            self._began_at is None
            or self._count >= settings.slice_max_size
            or now - self._began_at >= settings.slice_max_age
            # A forked child has the parent's slice in memory and must not write to it.
            or self._process_id != os.getpid()
        )
