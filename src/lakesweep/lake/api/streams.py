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
# Transfers have threads of their own: many slow uploads must not keep short calls waiting.
_MAX_TRANSFERS = 64

_transfer_limits: dict[int, anyio.CapacityLimiter] = {}


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
    """Iterate an async stream from the worker thread that a handler runs in."""
    while True:
        chunk = anyio.from_thread.run(_next_or_none, chunks)
        if chunk is None:
            return
        yield chunk


async def run_transfer(work: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """Run a lake call that takes as long as its client's network does."""
    return await anyio.to_thread.run_sync(work, limiter=limiter)


async def _next_or_none(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)
