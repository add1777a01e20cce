"""Bodies between the event loop, which owns the socket, and the worker thread, which owns the lake's call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

T = TypeVar("T")

# The socket hands over pieces of 64 KiB; a hop between threads for each would cost more than the copy.
CHUNK_BYTES = 1024 * 1024
MAX_TRANSFERS = 64


class Transfers:
    """Runs lake calls that take as long as their client's network does.

    They have threads of their own, so that many slow uploads don't keep short calls waiting.
    """

    def __init__(self, max_transfers: int = MAX_TRANSFERS) -> None:
        self._limiter = anyio.CapacityLimiter(max_transfers)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread, where it may iterate `pull_from_thread`."""
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)


async def gather_chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of at least `CHUNK_BYTES`, the last one aside."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def pull_from_thread(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """Iterate an async stream from the worker thread that a transfer runs in."""
    while True:
        chunk = anyio.from_thread.run(_next_or_none, chunks)
        if chunk is None:
            return
        yield chunk


async def _next_or_none(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)
