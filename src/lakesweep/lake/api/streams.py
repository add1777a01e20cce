"""Bodies between the event loop, which owns the socket, and the worker thread, which owns the lake's call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

# The socket hands over pieces of 64 KiB; a hop between threads for each would cost more than the copy.
CHUNK_BYTES = 1024 * 1024


async def gather_chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream's bytes in pieces of at least `CHUNK_BYTES`, the last one aside."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def pull_from_thread(chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
    """Iterate a stream of the running event loop in other threads: the upload's, or one that a store starts to read it."""
    loop = asyncio.get_running_loop()

    def pull() -> Iterator[bytes]:
        while True:
            chunk = asyncio.run_coroutine_threadsafe(_next_or_none(chunks), loop).result()
            if chunk is None:
                return
            yield chunk

    return pull()


async def _next_or_none(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)
