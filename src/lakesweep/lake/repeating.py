"""Upkeep that a server does again and again, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["repeating"]

logger = logging.getLogger(__name__)


@contextmanager
def repeating(name: str, work: Callable[[], None], every_seconds: float) -> Iterator[None]:
    """Do the work every so many seconds while the block lasts; an error is logged, and the next time is another try."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every_seconds):
            try:
                work()
            except Exception:
                # Whatever it was (no room for a process, a record that can't be read): without this thread nobody would
                # do the work again, nor say so.
                logger.exception("%s failed; trying again in %.0f s", name, every_seconds)

    thread = threading.Thread(target=run, name=f"lake-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
