"""What the lake asks of its ref store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


class KeyValueStore(Protocol):
    """Partitions of ordered keys. Every call is atomic and durable when it returns, in this and other processes.

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

    def change_all(self, changes: Sequence[Change], held: Sequence[Held] = ()) -> bool:
        """Make all changes in one transaction, of any partitions and each of another key, or none of them; say which.

        They are made if each finds what it expects, while each key of `held` has its value.
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


def end_of_prefix(prefix: bytes) -> bytes | None:
    """The least key above every key with the prefix; None when there is no such key."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        return None
    return trimmed[:-1] + bytes([trimmed[-1] + 1])
