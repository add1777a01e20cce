"""Millions of object keys that exist only as arithmetic: any page of their listing is made on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numba import njit

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"  # of xids; in byte order
_ALPHABET_BYTES = np.frombuffer(_ALPHABET.encode(), np.uint8)
_VALUES = np.zeros(256, np.int64)
_VALUES[_ALPHABET_BYTES] = np.arange(32)
_DIGITS = 6
_PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class ComputedKeys:
    """`slices × objects_per_slice` keys `<prefix><slice id>/<object id>`, ids of 20 characters like lakeFS's.

    Slice ids count from `first_slice` in steps of `slice_step`, and `more_in_last` objects more lie in the last slice.
    """

    prefix: str
    slices: int
    objects_per_slice: int
    slice_head: str = "g0000000000g0"
    slice_tail: str = "0"
    first_slice: int = 0
    slice_step: int = 1
    more_in_last: int = 0
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
        return self.slices * self.objects_per_slice + self.more_in_last

    def key(self, index: int) -> str:
        """The key at one place in the order."""
        part = min(index // self.objects_per_slice, self.slices - 1)
        number = index - part * self.objects_per_slice
        return f"{self.slice(part)}{self.object_head}{_digits(number)}0"

    def slice(self, part: int) -> str:
        """The prefix of one slice, with its "/"."""
        digits = _digits(self.first_slice + part * self.slice_step)
        return f"{self.prefix}{self.slice_head}{digits}{self.slice_tail}/"

    def bounds(self, part: int) -> tuple[int, int]:
        """The first index of a slice, and that after its last."""
        first = part * self.objects_per_slice
        return first, len(self) if part == self.slices - 1 else first + self.objects_per_slice

    def size(self, index: int) -> int:
        """How many bytes an object has."""
        return self.size_bytes

    def content(self, index: int) -> bytes:
        """The bytes of an object."""
        return bytes(self.size_bytes)

    def etag(self, index: int) -> str:
        """The store's tag of an object, without its quotes."""
        return "d41d8cd98f00b204e9800998ecf8427e"

    def modified_at(self, index: int) -> float:
        """When an object was written, in seconds since 1970."""
        return 1_704_067_200.0

    def first_at_or_after(self, key: str, *, is_after: bool) -> int:
        """The index of the first key ≥ `key` (or > `key`)."""
        return _first_at_or_after(self, key, is_after)

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
        return self.contents(indexes).tobytes()

    def contents(self, indexes: np.ndarray) -> np.ndarray:
        """The `<Contents>` of up to a thousand keys, a row of bytes for each."""
        rows = self._template[: len(indexes)].copy()
        self.fill_keys(rows[:, len("<Contents><Key>") :], indexes)
        return rows

    def fill_keys(self, rows: np.ndarray, indexes: np.ndarray) -> None:
        """Write what tells keys apart into rows of bytes that begin with some key."""
        at_slice, at_object = self._at_digits()
        parts = np.minimum(indexes // self.objects_per_slice, self.slices - 1)
        _fill_digits(rows, at_slice, self.first_slice + parts * self.slice_step)
        _fill_digits(rows, at_object, indexes - parts * self.objects_per_slice)

    def key_rows(self, indexes: np.ndarray) -> np.ndarray:
        """Keys as rows of bytes."""
        rows = np.tile(np.frombuffer(self.key(0).encode(), np.uint8), (len(indexes), 1))
        self.fill_keys(rows, indexes)
        return rows

    def indexes_in(self, rows: np.ndarray) -> np.ndarray:
        """Where keys stand, given as rows of bytes; anything for what is none of ours."""
        at_slice, at_object = self._at_digits()
        parts = (_read_digits(rows, at_slice) - self.first_slice) // self.slice_step
        return parts * self.objects_per_slice + _read_digits(rows, at_object)

    def _at_digits(self) -> tuple[int, int]:
        """Where in a key the numbers of its slice and of its object stand."""
        at_slice = len(self.prefix) + len(self.slice_head)
        return at_slice, at_slice + _DIGITS + len(self.slice_tail) + 1 + len(self.object_head)

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
        indexes = self.indexes_in(text).clip(0, len(self) - 1)
        is_ours = (self.key_rows(indexes) == text).all(axis=1)
        self.is_alive[indexes[is_ours]] = False

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


@lru_cache(maxsize=1024)
def _first_at_or_after(keys: ComputedKeys, key: str, is_after: bool) -> int:
    # Pages of one listing share their prefix.
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        here = keys.key(middle)
        if here < key or (is_after and here == key):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fill_digits(rows: np.ndarray, start: int, numbers: np.ndarray) -> None:
    for row in range(len(numbers)):
        number = numbers[row]
        for place in range(start + _DIGITS - 1, start - 1, -1):
            rows[row, place] = _ALPHABET_BYTES[number & 31]
            number >>= 5


def _read_digits(text: np.ndarray, start: int) -> np.ndarray:
    value = np.zeros(len(text), np.int64)
    for place in range(_DIGITS):
        value = value * 32 + _VALUES[text[:, start + place]]
    return value
