"""Work that is done at once or not begun: a look into memory or a warm file takes less time than a change of threads.

An event loop may not wait for a disk or a network. So it runs a look-up here, with itself as the thread: whatever would
wait says so before it does, and the same look-up is then run in a thread that may.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["WouldWait", "about_to_wait", "may_wait", "try_at_once"]

T = TypeVar("T")


class WouldWait(BaseException):  # no `Exception`: whoever catches errors may not take it for one
    """The work can't be done at once. Nothing was changed."""


class _Thread(threading.local):
    may_wait = True


_thread = _Thread()


def try_at_once(work: Callable[[], T]) -> T:
    """Run work that changes nothing; raises `WouldWait` where it would have to wait."""
    _thread.may_wait = False
    try:
        return work()
    finally:
        _thread.may_wait = True


def may_wait() -> bool:
    """Whether this thread may wait."""
    return _thread.may_wait


def about_to_wait() -> None:
    """Called before everything that may wait for a disk, a network or others, and before every change."""
    if not _thread.may_wait:
        raise WouldWait
