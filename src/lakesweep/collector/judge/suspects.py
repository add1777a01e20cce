"""Hashes and sizes of garbage: small enough to travel to the driver and back.

On a real server some of it may be a staged re-upload that the server does not list. Sizes of what no commit holds say
which entries are worth a look, hashes which of the addresses found there were garbage at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.engine.cells import Hashes
from lakesweep.formats.hashing import hash_addresses

Ints = npt.NDArray[np.int64]

# 32 MB each of sizes and of hashes: more are not brought together, and whoever asks must do without.
MOST_SUSPECTS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Distinct sizes of objects, ascending. Where `is_complete` is false, there were too many, or one was not known."""

    values: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    is_complete: bool = True

    @classmethod
    def of(cls, sizes: pa.Array | pa.ChunkedArray, most: int = MOST_SUSPECTS) -> Sizes:
        """The distinct sizes in a column; incomplete where there are more than `most`."""
        known = sizes.drop_null().cast(pa.int64())
        return cls(known.to_numpy(), len(known) == len(sizes))._compact(most)

    def __or__(self, other: Sizes) -> Sizes:
        joined = np.concatenate((self.values, other.values))
        return Sizes(joined, self.is_complete and other.is_complete)._compact(MOST_SUSPECTS)

    def __len__(self) -> int:
        return len(self.values)

    def __sub__(self, other: Sizes) -> Sizes:
        """These sizes without those of another set; only for complete sets."""
        return Sizes(self.values[~is_in(self.values, other.values)])

    def matches(self, sizes: Ints) -> npt.NDArray[np.bool_]:
        """Which of the given sizes are in the set. An incomplete set can't tell, so it answers that all are."""
        if not self.is_complete:
            return np.ones(len(sizes), dtype=bool)
        return is_in(sizes, self.values)

    def _compact(self, most: int) -> Sizes:
        distinct = np.unique(self.values)
        if not self.is_complete or len(distinct) > most:
            return Sizes(is_complete=False)
        return Sizes(distinct)


@dataclass(frozen=True, slots=True, eq=False)
class Suspects:
    """Sizes of the garbage that no commit holds, and hashes of all garbage, ascending; None where there are too many."""

    sizes: Sizes = field(default_factory=Sizes)
    hashes: Hashes | None = field(default_factory=lambda: np.empty(0, np.uint64))

    @classmethod
    def of(
        cls,
        hashes: Hashes,
        unreferenced_sizes: pa.Array | pa.ChunkedArray,
        most: int = MOST_SUSPECTS,
    ) -> Suspects:
        """Suspects from the hashes of all garbage, and from the sizes of the garbage that no commit holds."""
        return cls(
            Sizes.of(unreferenced_sizes, most), np.sort(hashes) if len(hashes) <= most else None
        )

    def __or__(self, other: Suspects) -> Suspects:
        hashes: Hashes | None = None
        if self.hashes is not None and other.hashes is not None:
            joined = np.concatenate((self.hashes, other.hashes))
            hashes = np.sort(joined) if len(joined) <= MOST_SUSPECTS else None
        return Suspects(self.sizes | other.sizes, hashes)

    def among(self, addresses: list[str]) -> list[str]:
        """The addresses that may be garbage by their hashes; all of them where there were too many hashes to keep."""
        if self.hashes is None or not addresses:
            return addresses
        found = is_in(hash_addresses(pa.array(addresses, pa.string())), self.hashes)
        return [addresses[int(number)] for number in np.flatnonzero(found)]

    def encode(self) -> bytes:
        """The suspects as bytes, for a column in a task's result."""
        flags = self.sizes.is_complete | (self.hashes is not None) << 1
        sizes = self.sizes.values.astype("<i8").tobytes()
        hashes = b"" if self.hashes is None else self.hashes.astype("<u8").tobytes()
        return bytes([flags]) + len(sizes).to_bytes(8, "little") + sizes + hashes

    @classmethod
    def decode(cls, data: bytes) -> Suspects:
        """The suspects that `encode` made these bytes of."""
        flags, end = data[0], 9 + int.from_bytes(data[1:9], "little")
        sizes = Sizes(np.frombuffer(data[9:end], "<i8"), bool(flags & 1))
        return cls(sizes, np.frombuffer(data[end:], "<u8") if flags & 2 else None)

    @classmethod
    def union(cls, blobs: Iterable[bytes]) -> Suspects:
        """The suspects of all tasks together, out of what each has encoded."""
        return reduce(Suspects.__or__, map(cls.decode, blobs), cls())


def is_in(
    values: npt.NDArray[np.generic], ordered: npt.NDArray[np.generic]
) -> npt.NDArray[np.bool_]:
    """Which of the values are in `ordered`, an ascending array."""
    if not len(ordered):
        return np.zeros(len(values), dtype=bool)
    at = np.searchsorted(ordered, values)
    at[at == len(ordered)] = 0
    found: npt.NDArray[np.bool_] = ordered[at] == values
    return found
