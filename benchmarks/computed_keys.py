"""Millions of object keys that exist only as arithmetic: any page of their listing is made on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"  # of xids; in byte order
_ALPHABET_BYTES = np.frombuffer(_ALPHABET.encode(), np.uint8)
_VALUES = np.zeros(256, np.int64)
_VALUES[_ALPHABET_BYTES] = np.arange(32)
_DIGITS = 6
_PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class ComputedKeys:
    """`slices × objects_per_slice` keys `<prefix><slice id>/<object id>`, ids of 20 characters like lakeFS's."""

    prefix: str
    slices: int
    objects_per_slice: int
    slice_head: str = "g0000000000g0"
    object_head: str = "d0000000000g0"
    size_bytes: int = 1_048_576
    last_modified: str = "2024-01-01T00:00:00.000Z"
    is_alive: np.ndarray = field(init=False, compare=False)
    _template: np.ndarray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_alive", np.ones(len(self), np.bool_))
        row = self._row(self.key(0))
        object.__setattr__(
            self, "_template", np.tile(np.frombuffer(row, np.uint8), (_PAGE_ROWS, 1))
        )

    def __len__(self) -> int:
        return self.slices * self.objects_per_slice

    def key(self, index: int) -> str:
        """The key at one place in the order."""
        part, number = divmod(index, self.objects_per_slice)
        return f"{self.slice(part)}{self.object_head}{_digits(number)}0"

    def slice(self, part: int) -> str:
        """The prefix of one slice, with its "/"."""
        return f"{self.prefix}{self.slice_head}{_digits(part)}0/"

    def first_at_or_after(self, key: str, *, is_after: bool) -> int:
        """The index of the first key ≥ `key` (or > `key`)."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            here = self.key(middle)
            if here < key or (is_after and here == key):
                low = middle + 1
            else:
                high = middle
        return low

    def alive_from(self, first: int, end: int, limit: int) -> np.ndarray:
        """Up to `limit` indexes of keys still there, from `first` and before `end`."""
        found: list[np.ndarray] = []
        count = 0
        while first < end and count < limit:
            stop = min(end, first + limit)
            alive = np.flatnonzero(self.is_alive[first:stop]) + first
            found.append(alive)
            count += len(alive)
            first = stop
        return np.concatenate(found)[:limit] if found else np.empty(0, np.int64)

    def page_rows(self, indexes: np.ndarray) -> bytes:
        """The `<Contents>` of up to a thousand keys."""
        rows = self._template[: len(indexes)]
        start = len("<Contents><Key>") + len(self.prefix) + len(self.slice_head)
        parts, numbers = np.divmod(indexes, self.objects_per_slice)
        rows = rows.copy()
        _fill_digits(rows, start, parts)
        _fill_digits(rows, start + _DIGITS + 2 + len(self.object_head), numbers)
        return rows.tobytes()

    def keys_from(self, first: int) -> Iterator[str]:
        """Keys still there, one by one."""
        for index in range(first, len(self)):
            if self.is_alive[index]:
                yield self.key(index)

    def index_of(self, key: str) -> int | None:
        """Where a key stands, or None when it is none of ours."""
        index = self.first_at_or_after(key, is_after=False)
        return index if index < len(self) and self.key(index) == key else None

    def delete(self, keys: list[bytes]) -> None:
        """Takes these keys away; those that are none of ours are passed over."""
        width = len(self.key(0))
        ours = [key for key in keys if len(key) == width and key.startswith(self.prefix.encode())]
        if ours:
            self._delete_rows(np.frombuffer(b"".join(ours), np.uint8).reshape(len(ours), width))

    def delete_in(self, body: bytes) -> bool:
        """Takes away all keys of a DeleteObjects body, if they are all ours and stand in rows of one length."""
        opening, closing = b"<Object><Key>", b"</Key></Object>"
        width = len(self.key(0))
        row = len(opening) + width + len(closing)
        start, end = body.find(opening), body.rfind(closing) + len(closing)
        if start < 0 or (end - start) % row:
            return False
        rows = np.frombuffer(body, np.uint8)[start:end].reshape(-1, row)
        prefix = opening + self.prefix.encode()
        if (rows[:, : len(prefix)] != np.frombuffer(prefix, np.uint8)).any():
            return False
        if (rows[:, -len(closing) :] != np.frombuffer(closing, np.uint8)).any():
            return False
        self._delete_rows(rows[:, len(opening) : len(opening) + width])
        return True

    def _delete_rows(self, text: np.ndarray) -> None:
        start = len(self.prefix) + len(self.slice_head)
        parts = _read_digits(text, start)
        numbers = _read_digits(text, start + _DIGITS + 2 + len(self.object_head))
        indexes = parts * self.objects_per_slice + numbers
        self.is_alive[indexes[indexes < len(self)]] = False

    def _row(self, key: str) -> bytes:
        return (
            f"<Contents><Key>{key}</Key><LastModified>{self.last_modified}</LastModified>"
            "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>"
            f"<Size>{self.size_bytes}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        ).encode()


def _digits(number: int) -> str:
    letters = []
    for _ in range(_DIGITS):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))


def _fill_digits(rows: np.ndarray, start: int, numbers: np.ndarray) -> None:
    for place in range(_DIGITS):
        shift = 5 * (_DIGITS - 1 - place)
        rows[:, start + place] = _ALPHABET_BYTES[(numbers >> shift) & 31]


def _read_digits(text: np.ndarray, start: int) -> np.ndarray:
    value = np.zeros(len(text), np.int64)
    for place in range(_DIGITS):
        value = value * 32 + _VALUES[text[:, start + place]]
    return value
