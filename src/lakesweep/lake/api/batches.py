"""Requests that are done together: those that arrive while a thread is busy make up its next batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_MOST_ITEMS = 64
_THREADS = 6


class Batches(Generic[Item, Outcome]):
    """Runs one function on all that waits. Belongs to an event loop, which alone touches what waits."""

    def __init__(self, run: Callable[[Sequence[Item]], Sequence[Outcome | Exception]]) -> None:
        self._run = run
        self._pool = ThreadPoolExecutor(_THREADS, "lake-batch")
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._running = 0

    async def run(self, item: Item) -> Outcome:
        """What became of the item, once its batch is done; raises what went wrong with it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((item, future))
        # Not at once: whoever else has something by now comes along.
        loop.call_soon(self._start)
        return await future

    def _start(self) -> None:
        if not self._waiting or self._running == _THREADS:
            return
        self._running += 1
        size = min(len(self._waiting), _MOST_ITEMS)
        batch = [self._waiting.popleft() for _ in range(size)]
        work = partial(self._run, [item for item, _ in batch])
        done = asyncio.get_running_loop().run_in_executor(self._pool, work)
        done.add_done_callback(partial(self._tell, [future for _, future in batch]))

    def _tell(
        self,
        futures: list[asyncio.Future[Outcome]],
        done: asyncio.Future[Sequence[Outcome | Exception]],
    ) -> None:
        self._running -= 1
        self._start()
        error = done.exception()
        outcomes = [error] * len(futures) if error is not None else done.result()
        for future, outcome in zip(futures, outcomes, strict=True):
            if future.done():
                continue  # its client went away
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
