"""Sets of object sizes, small enough to travel: how many garbage objects a task found counts, not how many it saw."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

# 32 MB of sizes: more are not brought together, and whoever asks must do without.
MOST_SIZES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Distinct sizes in ascending order. When `is_complete` is false, there were too many, or one was not known."""

    values: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    is_complete: bool = True

    @classmethod
    def of(cls, sizes: pa.Array | pa.ChunkedArray, most: int = MOST_SIZES) -> Sizes:
        """The sizes in a column."""
        known = sizes.drop_null().cast(pa.int64())
        return cls(known.to_numpy(), len(known) == len(sizes))._compact(most)

    def __or__(self, other: Sizes) -> Sizes:
        joined = np.concatenate((self.values, other.values))
        return Sizes(joined, self.is_complete and other.is_complete)._compact(MOST_SIZES)

    def __len__(self) -> int:
        return len(self.values)

    def matches(self, sizes: Ints) -> npt.NDArray[np.bool_]:
        """Which of these sizes are in the set. An incomplete set can't tell, so it says all are."""
        if not self.is_complete:
            return np.ones(len(sizes), dtype=bool)
        if not len(self.values):
            return np.zeros(len(sizes), dtype=bool)
        at = np.searchsorted(self.values, sizes)
        at[at == len(self.values)] = 0
        return np.equal(self.values[at], sizes)

    def encode(self) -> bytes:
        """The set as bytes, for a row of a task's result."""
        return bytes([self.is_complete]) + self.values.astype("<i8").tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Sizes:
        """The set in such bytes."""
        return cls(np.frombuffer(data, "<i8", offset=1), data[:1] == b"\x01")

    @classmethod
    def union(cls, blobs: Iterable[bytes]) -> Sizes:
        """All encoded sets together."""
        return reduce(Sizes.__or__, map(cls.decode, blobs), cls())

    def _compact(self, most: int) -> Sizes:
        ordered = np.sort(self.values)
        is_first = np.ones(len(ordered), dtype=bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        distinct = ordered[is_first]
        if not self.is_complete or len(distinct) > most:
            return Sizes(is_complete=False)
        return Sizes(distinct)
