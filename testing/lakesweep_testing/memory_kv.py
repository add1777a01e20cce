"""The ref store of an embedded lake in memory, for tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from lakesweep.lake.kv.interface import PAGE_ROWS, Change, Held, Note, Row, write_over_in_steps


class _Partition:
    """Values by key, and the keys in order once somebody asks for a page."""

    __slots__ = ("sorted_keys", "values")

    def __init__(self, values: dict[bytes, bytes] | None = None) -> None:
        self.values = dict(values or {})
        self.sorted_keys: list[bytes] | None = None

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

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        with self._lock:
            for partition, key, value in held:
                if self._partition(partition).values.get(key) != value:
                    return False
            for change in changes:
                present = self._partition(change.partition).values.get(change.key)
                if change.expected is not ... and present != change.expected:
                    return False
            for change in changes:
                found = self._partition(change.partition)
                if change.value is None:
                    found.remove(change.key)
                else:
                    found.put(change.key, change.value)
            return True

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        return write_over_in_steps(self, partition, rows, note, held)

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

    def rows(self) -> dict[str, dict[bytes, bytes]]:
        """A copy of everything, by partition and key."""
        with self._lock:
            return {name: dict(found.values) for name, found in self._partitions.items()}

    def put_back(self, rows: dict[str, dict[bytes, bytes]]) -> None:
        """Have these rows, and no others."""
        with self._lock:
            self._partitions = {name: _Partition(values) for name, values in rows.items()}

    def _partition(self, name: str) -> _Partition:
        return self._partitions.setdefault(name, _Partition())
