"""The ref store of a scheduled lake: in memory, and every call is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakesweep.lake.kv.interface import PAGE_ROWS, Change, Held, Note, Row, write_over_in_steps
from lakesweep_testing.memory_kv import MemoryKeyValueStore
from lakesweep_testing.schedules.steps import Access, Touch

Step = Callable[[Access], None]
"""Called before each access; returns when the actor may go on."""


class SteppedKeyValueStore:
    """Waits for its turn before each call, then makes the call on the store that all actors share."""

    is_remote = False

    def __init__(self, kv: MemoryKeyValueStore, step: Step) -> None:
        self._kv = kv
        self._step = step

    def get(self, partition: str, key: bytes) -> bytes | None:
        self._step(Access("get", partition, key, is_write=False))
        return self._kv.get(partition, key)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._step(Access("set", partition, key, is_write=True))
        self._kv.set(partition, key, value)

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        also = () if held is None else (Touch(held[0], held[1], is_write=False),)
        self._step(Access("set_if", partition, key, is_write=True, also=also))
        return self._kv.set_if(partition, key, value, expected, held)

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        complete = list(rows)
        also = tuple(Touch(partition, key, is_write=True) for key, _ in complete[1:])
        self._step(Access("set_many", partition, complete[0][0], is_write=True, also=also))
        self._kv.set_many(partition, complete)

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        if not changes:
            return self._kv.change_all(changes, held, is_durable=is_durable)
        first = changes[0]
        also = [Touch(change.partition, change.key, is_write=True) for change in changes[1:]]
        also += [Touch(partition, key, is_write=False) for partition, key, _ in held]
        verb = "change_all" if first.value is not None else "delete_if"
        self._step(Access(verb, first.partition, first.key, is_write=True, also=tuple(also)))
        return self._kv.change_all(changes, held, is_durable=is_durable)

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        return write_over_in_steps(self, partition, rows, note, held)

    def delete(self, partition: str, key: bytes) -> None:
        self._step(Access("delete", partition, key, is_write=True))
        self._kv.delete(partition, key)

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        self._step(Access("delete_if", partition, key, is_write=True))
        return self._kv.delete_if(partition, key, expected)

    def delete_partition(self, partition: str) -> None:
        self._step(Access("delete_partition", partition, b"", is_write=True, is_range=True))
        self._kv.delete_partition(partition)

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        self._step(Access("page", partition, prefix, is_write=False, is_range=True))
        return self._kv.page(partition, prefix=prefix, after=after, limit=limit)

    def close(self) -> None:
        """Nothing to let go of."""
