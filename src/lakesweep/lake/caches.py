"""A cache for what never changes: values up to a total size, the least recently used leaving first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SizedCache(Generic[T]):
    """Thread-safe. Readers of a missing value may both fetch it; it is the same value."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._values: OrderedDict[tuple[str, str], tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], read: Callable[[], tuple[T, int]]) -> T:
        """The value, read as (value, size) when it is not here. One larger than the cache is kept until the next."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value, size = read()
        with self._lock:
            if key not in self._values:
                self._values[key] = (value, size)
                self._total += size
            while self._total > self._most and len(self._values) > 1:
                _, (_, dropped) = self._values.popitem(last=False)
                self._total -= dropped
        return value
