"""Threads for the lake's calls. Uploads, reads and lists have their own, so that none of them can take another's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.to_thread

from lakesweep.lake.api.batches import Batches
from lakesweep.lake.lake import Lake
from lakesweep.lake.uploads.together import SmallUpload
from lakesweep.lake.values import ObjectStats
from lakesweep.storage.waiting import WouldWait, try_at_once

T = TypeVar("T")

_SHORT_UPLOADS = 32
_LONG_UPLOADS = 64
_READS = 24
_LISTS = 8


class Lanes:
    """Runs lake calls in threads while the event loop goes on.

    No call waits for its client in a thread, but for one: an upload that does not fit into memory. Those have a lane of
    their own, so that however slow they are, they keep nobody waiting but each other.
    """

    def __init__(self, lake: Lake) -> None:
        # Nothing is done at once where the ref store is another machine's.
        self._is_remote = lake.kv.is_remote
        self._small_uploads = Batches(lake.small_uploads.store)
        self._uploads = ThreadPoolExecutor(_SHORT_UPLOADS, "lake-upload")
        self._reads = ThreadPoolExecutor(_READS, "lake-read")
        self._lists = ThreadPoolExecutor(_LISTS, "lake-list")
        self._long_uploads = anyio.CapacityLimiter(_LONG_UPLOADS)

    async def upload_small(self, prepare: Callable[[], SmallUpload | None]) -> ObjectStats | None:
        """Store a small body together with others; None, with nothing done, where that is not possible."""
        if self._is_remote:
            return None
        try:
            upload = try_at_once(prepare)
        except WouldWait:
            return None
        return None if upload is None else await self._small_uploads.run(upload)

    async def run_upload(self, work: Callable[[], T]) -> T:
        """Run a write whose bytes are all here."""
        return await asyncio.get_running_loop().run_in_executor(self._uploads, work)

    async def run_long_upload(self, work: Callable[[], T]) -> T:
        """Run a write that may iterate `pull_from_thread`."""
        return await anyio.to_thread.run_sync(work, limiter=self._long_uploads)

    async def look_up(self, work: Callable[[], T]) -> T:
        """Run a look-up that changes nothing: here where it need not wait for anything, else as a read."""
        if not self._is_remote:
            with suppress(WouldWait):
                return try_at_once(work)
        return await self.run_read(work)

    async def run_read(self, work: Callable[[], T]) -> T:
        """Run a read that may wait for the store."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, work)

    async def run_list(self, work: Callable[[], T]) -> T:
        """Run a call that makes a page of a list."""
        return await asyncio.get_running_loop().run_in_executor(self._lists, work)
