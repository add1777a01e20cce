"""The ref store of an embedded lake in memory, for tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from lakesweep.lake.kv.interface import PAGE_ROWS, Held, Row


class _Partition:
    """Values by key, and the keys in order once somebody asks for a page."""

    __slots__ = ("sorted_keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.sorted_keys: list[bytes] | None = []

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            self.sorted_keys = None
        self.values[key] = value

    def remove(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            self.sorted_keys = None

    def keys_in_order(self) -> list[bytes]:
        if self.sorted_keys is None:
            self.sorted_keys = sorted(self.values)
        return self.sorted_keys


class MemoryKeyValueStore:
    """Partitions of ordered keys under one lock."""

    is_remote = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[str, _Partition] = {}

    def get(self, partition: str, key: bytes) -> bytes | None:
        with self._lock:
            found = self._partitions.get(partition)
            return None if found is None else found.values.get(key)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        with self._lock:
            self._partition(partition).put(key, value)

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        with self._lock:
            found = self._partition(partition)
            if found.values.get(key) != expected:
                return False
            if held is not None and self._partition(held[0]).values.get(held[1]) != held[2]:
                return False
            found.put(key, value)
            return True

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        complete = list(rows)
        with self._lock:
            found = self._partition(partition)
            for key, value in complete:
                found.put(key, value)

    def delete(self, partition: str, key: bytes) -> None:
        with self._lock:
            self._partition(partition).remove(key)

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        with self._lock:
            found = self._partition(partition)
            if found.values.get(key) != expected:
                return False
            found.remove(key)
            return True

    def delete_partition(self, partition: str) -> None:
        with self._lock:
            self._partitions.pop(partition, None)

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        with self._lock:
            found = self._partitions.get(partition)
            if found is None:
                return []
            keys = found.keys_in_order()
            start = bisect_left(keys, prefix)
            if after is not None:
                start = max(start, bisect_right(keys, after))
            rows = []
            for key in keys[start : start + limit]:
                if not key.startswith(prefix):
                    break
                rows.append((key, found.values[key]))
            return rows

    def close(self) -> None:
        """Nothing to let go of; the content goes with the object."""

    def _partition(self, name: str) -> _Partition:
        return self._partitions.setdefault(name, _Partition())
