"""Reviews of dropped objects in a process of their own: no request waits for Python's lock while one goes on.

The server's process starts it once a repository wants reviews, and starts another when it died. It may be killed at any
moment: a review goes on with what it finds condemned.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from lakesweep.errors import LakesweepError
from lakesweep.lake.hard_delete.reviewer import Reviewer
from lakesweep.lake.lake import Lake
from lakesweep.lake.repeating import repeating
from lakesweep.lake.workers import watch_parent

__all__ = ["REVIEW_SECONDS", "Review", "review_until_told", "reviewing_elsewhere"]

logger = logging.getLogger(__name__)

Review = Callable[[Connection, str], None]
"""What the process does: it sends the counts of each review, and holds leases under the name. It must be picklable."""
REVIEW_SECONDS = 5.0
_STOP_SECONDS = 10.0
_NICENESS = 10  # users come first


@contextmanager
def reviewing_elsewhere(
    reviewer: Reviewer, review: Review, every_seconds: float = REVIEW_SECONDS
) -> Iterator[None]:
    """Keep a process that runs `review` while the block lasts, once there is something to review.

    Args:
        reviewer: its counts are those of the process; it reviews nothing itself.
    """
    crew = _Crew(reviewer, review)
    try:
        with repeating("start of reviews", crew.look, every_seconds):
            yield
    finally:
        crew.stop()


def review_until_told(
    told: Connection,
    name: str,
    *,
    opened: Callable[[], Lake],
    set_up_logging: Callable[[], None],
    every_seconds: float = REVIEW_SECONDS,
) -> None:
    """Review again and again, until this process is told to stop or that of the server has ended."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the server, which then stops this one
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    watch_parent(stop.set)
    os.nice(_NICENESS)
    set_up_logging()
    lake = opened()
    lake.reviewer.name = name
    lake.reviewer.rest = time.sleep  # those who write get every second turn at least
    lake.reviewer.is_stopped = stop.is_set
    lake.reviewer.pause = stop.wait
    try:
        while True:
            try:
                lake.reviewer.run()
            except LakesweepError:
                logger.exception("review failed; trying again in %.0f s", every_seconds)
            with suppress(BrokenPipeError):  # the server is gone, and this process is about to be
                told.send(lake.reviewer.take_counts())
            if stop.wait(every_seconds):
                return
    finally:
        lake.close()


class _Crew:
    """The one process that reviews, where there is one."""

    def __init__(self, reviewer: Reviewer, review: Review) -> None:
        self._reviewer = reviewer
        self._review = review
        # Not forked: a child would share open connections and locks with its parent.
        self._context = multiprocessing.get_context("spawn")
        self._process: SpawnProcess | None = None
        self._hears: Connection | None = None

    def look(self) -> None:
        """Take the counts that came, and start the process where there is none and one is wanted."""
        self._take_counts()
        if self._process is not None and self._process.exitcode is not None:
            logger.error(
                "the process that reviews ended with status %s; starting another",
                self._process.exitcode,
            )
            self._forget()
        if self._process is None and self._reviewer.is_wanted():
            self._start()

    def _start(self) -> None:
        hears, tells = self._context.Pipe(duplex=False)
        with closing(tells):
            process = self._context.Process(
                target=self._review, args=(tells, self._reviewer.name), name="lake-reviewer"
            )
            try:
                process.start()
            except BaseException:
                hears.close()
                raise
        self._process, self._hears = process, hears

    def stop(self) -> None:
        """Let the process finish the review that it is at; one that takes long is ended, and loses nothing."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.join(_STOP_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._take_counts()
        self._forget()

    def _take_counts(self) -> None:
        with suppress(EOFError):
            while self._hears is not None and self._hears.poll():
                self._reviewer.counts.add(self._hears.recv())

    def _forget(self) -> None:
        if self._hears is not None:
            self._hears.close()
        self._process = self._hears = None
