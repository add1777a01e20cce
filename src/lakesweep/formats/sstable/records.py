"""Records in columns: keys and values as offsets into two buffers, so that compiled code can run over millions of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Records"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Keys and their values. Record i has key `keys[key_offsets[i]:key_offsets[i + 1]]`, and its value likewise."""

    key_offsets: Ints
    keys: Bytes
    value_offsets: Ints
    values: Bytes

    def __post_init__(self) -> None:
        # Values do not change. It also gives compiled code one type of array to be compiled for.
        for array in (self.key_offsets, self.keys, self.value_offsets, self.values):
            array.flags.writeable = False

    @classmethod
    def from_columns(cls, keys: Sequence[bytes], values: Sequence[bytes]) -> Records:
        """Records from two lists of equal length."""
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values make no records")
        return cls(_offsets(keys), _joined(keys), _offsets(values), _joined(values))

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Records:
        """Records from (key, value) pairs."""
        listed = list(pairs)
        return cls.from_columns([key for key, _ in listed], [value for _, value in listed])

    def __len__(self) -> int:
        return self.key_offsets.size - 1

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        keys, values = self.keys.tobytes(), self.values.tobytes()
        key_offsets, value_offsets = self.key_offsets.tolist(), self.value_offsets.tolist()
        for i in range(len(self)):
            yield (
                keys[key_offsets[i] : key_offsets[i + 1]],
                values[value_offsets[i] : value_offsets[i + 1]],
            )

    def key(self, i: int) -> bytes:
        """Key of one record."""
        return self.keys[self.key_offsets[i] : self.key_offsets[i + 1]].tobytes()


def _offsets(parts: Sequence[bytes]) -> Ints:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    return offsets


def _joined(parts: Sequence[bytes]) -> Bytes:
    return np.frombuffer(b"".join(parts), np.uint8)
