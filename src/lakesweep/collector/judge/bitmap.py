"""A set of numbers as a bitmap: it never denies a number that is in the set, and rarely admits one that is not.

Where few numbers are looked for among many, it says of most of the many at once that nobody looks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.unsignedinteger]
Mask = npt.NDArray[np.bool_]

_PLACES_EACH = 16  # of a number: one of sixteen that are not in the set is admitted
_LEAST_BITS, _MOST_BITS = 10, 28
# Fibonacci hashing: numbers that differ anywhere get places far apart.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Bitmap:
    """A power of two of places; a number is in the set only if its place is marked."""

    marks: Mask

    @classmethod
    def sized_for(cls, count: int) -> Self:
        """An empty bitmap with room for this many numbers."""
        bits = (count * _PLACES_EACH).bit_length()
        return cls(np.zeros(1 << min(max(bits, _LEAST_BITS), _MOST_BITS), np.bool_))

    @classmethod
    def of(cls, numbers: Numbers) -> Self:
        """A bitmap of these numbers."""
        found = cls.sized_for(len(numbers))
        found.add(numbers)
        return found

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The bitmap that `encode` made these bytes of."""
        return cls(np.unpackbits(np.frombuffer(data, np.uint8)).astype(np.bool_))

    def encode(self) -> bytes:
        """The bitmap as bytes, with one bit for each place."""
        return np.packbits(self.marks).tobytes()

    def add(self, numbers: Numbers) -> None:
        """Add numbers to the set."""
        self.marks[self._places(numbers)] = True

    def may_have(self, numbers: Numbers) -> Mask:
        """For each number, False where it is certainly not in the set; True says that it may be."""
        found: Mask = self.marks[self._places(numbers)]
        return found

    def _places(self, numbers: Numbers) -> npt.NDArray[np.uint64]:
        shift = np.uint64(64 - (len(self.marks).bit_length() - 1))
        return (numbers.astype(np.uint64) * _FACTOR) >> shift
