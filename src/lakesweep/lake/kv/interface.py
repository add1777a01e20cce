"""What the lake asks of its ref store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType
from typing import NamedTuple, Protocol

PAGE_ROWS = 1000

Row = tuple[bytes, bytes]
"""A key and its value. A plain tuple: millions of them pass through a scan."""

Held = tuple[str, bytes, bytes]
"""A partition, a key in it, and the value that the key must have for another write to be made."""


class Change(NamedTuple):
    """One of several changes that are made together: a value for a key (None: the key goes).

    `expected` is what must be there before (None: no such key); `...` stands for whatever is there.
    """

    partition: str
    key: bytes
    value: bytes | None
    expected: bytes | EllipsisType | None = ...


Note = Callable[[bytes, bytes], Change | None]
"""What is recorded of a key's value when it is written over."""

_MOST_RIVALS = 1_000
"""How often rows are tried for which others come first, each of them having written one."""


class KeyValueStore(Protocol):
    """Partitions of ordered keys. Every call is atomic and, unless it says otherwise, durable when it returns.

    Keys order bytewise. An empty value is a value.
    """

    is_remote: bool
    """Whether a `get` waits for another machine; else it takes microseconds, and an event loop may call it."""

    def get(self, partition: str, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        """Write the value, whatever was there."""
        ...

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        """Write the value if the present one equals `expected` (None: no such key); say whether it was done.

        With `held` it is written only while that key has its value, looked at in the same transaction.
        """
        ...

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        """Write many values, all or none; rows in key order are quickest."""
        ...

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        """Make all changes in one transaction, of any partitions and each of another key, or none of them; say which.

        They are made if each finds what it expects, while each key of `held` has its value. Without `is_durable`, nobody
        waits for the disk: everybody sees the changes, but a power cut may undo them. It never undoes them and keeps
        a later change.
        """
        ...

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        """Write the rows (None: the key goes), and in the same transaction what `note` makes of each value that goes.

        All of it, or nothing where a key of `held` has another value; say which. Of two rows for one key the second
        writes over the first.
        """
        ...

    def delete(self, partition: str, key: bytes) -> None:
        """Remove the key; no error when it is absent."""
        ...

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        """Remove the key if its value equals `expected`; say whether it was done."""
        ...

    def delete_partition(self, partition: str) -> None:
        """Remove all keys of a partition. Not atomic: may be done in steps, and done again after a crash."""
        ...

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        """Up to `limit` rows with the prefix, in key order, after a key (exclusive). Fewer only at the end."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def scan(
    kv: KeyValueStore,
    partition: str,
    *,
    prefix: bytes = b"",
    after: bytes | None = None,
    page_rows: int = PAGE_ROWS,
) -> Iterator[Row]:
    """All rows with the prefix in key order, read page by page."""
    while True:
        rows = kv.page(partition, prefix=prefix, after=after, limit=page_rows)
        yield from rows
        if len(rows) < page_rows:
            return
        after = rows[-1][0]


def write_over_in_steps(
    kv: KeyValueStore,
    partition: str,
    rows: Sequence[tuple[bytes, bytes | None]],
    note: Note,
    held: Sequence[Held],
) -> bool:
    """`write_over` for a store that has no lock of its own: it reads, and writes if what it read is there still."""
    last = dict(rows)
    for _ in range(_MOST_RIVALS):
        present = {key: kv.get(partition, key) for key in last}
        changes = [
            Change(partition, key, value, present[key])
            for key, value in last.items()
            if value != present[key]
        ]
        if not changes:
            return True
        # Of two rows for one key the first is written over at once.
        gone = [(key, value) for key, value in rows if value != last[key]]
        gone += [(change.key, present[change.key]) for change in changes]
        noted = [note(key, value) for key, value in gone if value is not None]
        changes += unique(change for change in noted if change is not None)
        if kv.change_all(changes, held):
            return True
        if any(kv.get(part, key) != value for part, key, value in held):
            return False
    return False


def unique(changes: Iterable[Change]) -> list[Change]:
    """The changes without those of a key that another change of the same transaction has."""
    return list({(change.partition, change.key): change for change in changes}.values())


def end_of_prefix(prefix: bytes) -> bytes | None:
    """The least key above every key with the prefix; None when there is no such key."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        return None
    return trimmed[:-1] + bytes([trimmed[-1] + 1])
