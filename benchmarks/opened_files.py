"""Counts how often each file of some folders is opened, by whatever process, as the kernel tells it (Linux)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

_OPEN, _CLOSE, _IS_FOLDER, _LOST = 0x20, 0x10, 0x40000000, 0x4000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 20


class OpenedFiles:
    """While the block runs, `counts` has a number for each path that was opened to read."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.counts: Counter[str] = Counter()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK)
        # Closes are watched as well: of two opens in a row with nothing between them the kernel would tell one.
        self._folders = {self._watch(folder): str(folder) for folder in folders}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, name="opened-files")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        os.close(self._descriptor)

    def _watch(self, folder: Path) -> int:
        number: int = self._libc.inotify_add_watch(
            self._descriptor, os.fsencode(folder), _OPEN | _CLOSE
        )
        if number < 0:
            raise OSError(ctypes.get_errno(), f"{folder} can't be watched")
        return number

    def _read(self) -> None:
        while True:
            is_last = self._done.is_set()
            ready, _, _ = select.select([self._descriptor], [], [], 0 if is_last else 0.2)
            if ready:
                self._count(os.read(self._descriptor, _BUFFER))
            elif is_last:
                return

    def _count(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if mask & _LOST:
                self.counts["(events were lost)"] += 1
            elif mask & _OPEN and not mask & _IS_FOLDER:
                name = os.fsdecode(events[at - length : at].rstrip(b"\0"))
                self.counts[f"{self._folders[watch]}/{name}"] += 1
