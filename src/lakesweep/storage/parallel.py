"""Many requests in flight behind a plain iterator, with bounded memory."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_STOP_CHECK_SECONDS = 0.1


def ordered_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[tuple[Item, Result], None, None]:
    """(item, work(item)) in the items' order; at most `2 × workers` results wait at a time.

    One worker, or one item, is for the caller itself: no thread is started for it. Who leaves before the end waits for no
    thread: Python's garbage collector may be who leaves, in any thread and inside any lock, also one that the thread's
    end needs.
    """
    if workers == 1 or (isinstance(items, Sized) and len(items) <= 1):
        for item in items:
            yield item, work(item)
        return
    pending: deque[tuple[Item, Future[Result]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="lakesweep-store")
    is_left = False
    try:
        for item in items:
            pending.append((item, pool.submit(work, item)))
            if len(pending) >= 2 * workers:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    except GeneratorExit:
        is_left = True
        raise
    finally:
        pool.shutdown(wait=not is_left, cancel_futures=True)


class Crew:
    """Threads for many small requests, of which each takes the next item when it is done with one.

    Handing every request over by itself, as a future, costs about as much as sending it.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakesweep-crew")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """work(item) for each item, in the items' order. After an error no more items are taken, and it is raised."""
        results: dict[int, Result] = {}
        places = iter(range(len(items)))  # one thread at a time takes a number from it

        def take() -> None:
            try:
                for place in places:
                    results[place] = work(items[place])
            except BaseException:
                for _ in places:
                    pass
                raise

        futures = [self._pool.submit(take) for _ in range(min(self._threads, len(items)))]
        for future in futures:
            future.result()
        return [results[place] for place in range(len(items))]


class _End:
    """Closes a merged stream: one per worker."""


def merged_streams(
    sources: Sequence[Callable[[], Iterator[Result]]], workers: int, depth: int
) -> Generator[Result, None, None]:
    """Everything that the sources yield, interleaved, each read by one of `workers` threads.

    At most `depth` results wait. The first error of any source is raised; whoever stops early stops the threads, and as
    with `ordered_parallel` does not wait for them.
    """
    results: queue.Queue[Result | _End | BaseException] = queue.Queue(depth)
    waiting = iter(sources)
    lock = threading.Lock()
    stopped = threading.Event()

    def hand_over(result: Result | _End | BaseException) -> bool:
        while not stopped.is_set():
            try:
                results.put(result, timeout=_STOP_CHECK_SECONDS)
                return True
            except queue.Full:
                continue
        return False

    def read_sources() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    source = next(waiting, None)
                if source is None:
                    break
                for result in source():
                    if not hand_over(result):
                        return
            hand_over(_End())
        except BaseException as error:  # noqa: BLE001 - raised again by the reader
            hand_over(error)

    threads = [
        threading.Thread(target=read_sources, name="lakesweep-list", daemon=True)
        for _ in range(max(1, min(workers, len(sources))))
    ]
    for thread in threads:
        thread.start()
    running = len(threads)
    is_left = False
    try:
        while running:
            result = results.get()
            if isinstance(result, _End):
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result
    except GeneratorExit:
        is_left = True
        raise
    finally:
        stopped.set()
        for thread in () if is_left else threads:
            thread.join()
