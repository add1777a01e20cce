"""Several server processes on one listening socket and one ref store.

The first process binds the socket, makes the first user, and then only watches: it starts the workers, replaces one that
died, and stops them when it is told to. A worker that finds its watcher gone stops as well.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.context import SpawnProcess

from lakesweep.lake.errors import LakeError

__all__ = ["ServeOne", "run_workers", "watch_parent"]

logger = logging.getLogger(__name__)

ServeOne = Callable[[socket.socket, bool], None]
"""Serves on the socket until the process is told to stop; the flag says whether to do the upkeep, too."""

_LOOK_SECONDS = 0.2
_STOP_SECONDS = 30.0
_SHORT_LIFE_SECONDS = 5.0
_MOST_SHORT_LIVES = 5


def run_workers(
    count: int,
    listener: socket.socket,
    serve_one: ServeOne,
    *,
    announce: Callable[[], None],
    passes_on: Sequence[signal.Signals] = (),
) -> None:
    """Keep `count` workers running until this process is told to stop (SIGINT, SIGTERM).

    Args:
        serve_one: what a worker does; it must be picklable. The first worker alone does the upkeep.
        announce: called once a signal would stop all of them in good order.
        passes_on: further signals, which every worker gets when this process does. A worker begins with them blocked.

    Raises:
        LakeError: workers die as soon as they are started.
    """
    is_told_to_stop = threading.Event()
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    earlier = [signal.signal(number, lambda *_: is_told_to_stop.set()) for number in signals]
    crew = _Crew(listener, serve_one, passes_on)
    signals += tuple(passes_on)
    earlier += [signal.signal(number, lambda got, _: crew.send(got)) for number in passes_on]
    try:
        for number in range(count):
            crew.start(number)
        announce()
        while not is_told_to_stop.is_set():
            crew.replace_dead()
    finally:
        crew.stop()
        for number, handler in zip(signals, earlier, strict=True):
            signal.signal(number, handler)


def watch_parent(stop: Callable[[], None]) -> None:
    """Call `stop` when the process that started this worker has ended, however it did."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        stop()

    threading.Thread(target=wait, name="lake-parent", daemon=True).start()


class _Crew:
    def __init__(
        self, listener: socket.socket, serve_one: ServeOne, passes_on: Sequence[signal.Signals]
    ) -> None:
        # Not forked: a child would share open connections and locks with its parent.
        self._context = multiprocessing.get_context("spawn")
        self._listener = listener
        self._serve_one = serve_one
        self._passes_on = passes_on
        self._workers: dict[int, tuple[SpawnProcess, float]] = {}
        self._short_lives = 0

    def start(self, number: int) -> None:
        worker = self._context.Process(
            target=self._serve_one, args=(self._listener, number == 0), name=f"lake-{number}"
        )
        # A worker gets them once it is ready for them, and unblocks them itself; before, they would end it.
        earlier = signal.pthread_sigmask(signal.SIG_BLOCK, self._passes_on)
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
        self._workers[number] = (worker, time.monotonic())

    def replace_dead(self) -> None:
        """Wait a moment; start anew who died meanwhile."""
        sentinels = [worker.sentinel for worker, _ in self._workers.values()]
        multiprocessing.connection.wait(sentinels, _LOOK_SECONDS)
        for number, (worker, started_at) in list(self._workers.items()):
            if worker.exitcode is None:
                continue
            is_short = time.monotonic() - started_at < _SHORT_LIFE_SECONDS
            self._short_lives = self._short_lives + 1 if is_short else 0
            if self._short_lives >= _MOST_SHORT_LIVES:
                raise LakeError(
                    f"The lake's workers end as soon as they start (status {worker.exitcode}); the server stops."
                    " The log says why."
                )
            logger.error(
                "worker %d ended with status %s; starting another", number, worker.exitcode
            )
            self.start(number)

    def send(self, number: int) -> None:
        """Send a signal to every worker; who died meanwhile needs none."""
        for worker, _ in self._workers.values():
            if worker.pid is not None and worker.exitcode is None:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, number)

    def stop(self) -> None:
        """Let every worker finish its requests."""
        workers = [worker for worker, _ in self._workers.values()]
        for worker in workers:
            worker.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.exitcode is None:
                worker.kill()
                worker.join()
