"""The objects of the scenario by arithmetic: what becomes of each, its key, its size and its bytes.

An object is known by its rank. Each role has one stretch of ranks, and neighbours by rank lie in slices far apart. Ranks
from `count` on are objects that come with the second state; their slices are the newest, so their keys are the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import md5

import numpy as np
import numpy.typing as npt
from numba import njit

from computed_keys import ComputedKeys

Indexes = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BUCKET = "lake"
ROOT = "bench/"
REPOSITORY = "bench"
NAMESPACE = f"s3://{BUCKET}/bench"
ENTRIES_PER_RANGE = 417

# What holds an object of the first state, and the share of all that it is. What is left over is superseded.
SHARES = {
    "head": 0.655,  # the heads of branches
    "superseded": 0.04,  # older commits that rules retain, or heads of branches that forked off earlier
    "young": 0.0049,  # nothing, and it is younger than the minimum age
    "reupload": 0.0001,  # a staged entry with the bytes of what is committed there, which servers do not list
    "staged": 0.249,
    "tracked": 0.001,  # the server's list of what is uncommitted, though no branch reads it
    "expired": 0.019,  # expired commits alone
    "tagged": 0.001,  # expired commits alone, of which one has a tag
    "unreferenced": 0.03,  # nothing
}
# The same of what comes with the second state.
NEW_SHARES = {"new committed": 0.6, "new staged": 0.25, "new unreferenced": 0.15}

# Slots with small files, of few sizes: each of those may be what an unreferenced object of its size is a copy of.
_SMALL_SLOTS_EVERY = 20
_SMALL_OF_UNREFERENCED = 0.01
_SMALLEST, _SIZES = 300_000_000, 600_000_000  # nine digits, and always five bytes as a varint
_SPREAD = 611_953  # a prime
_DESCENDING_EPOCH = 64_060_588_800  # ids of slices count the seconds up to it
_DAYS_OF_SLICES = 60


@dataclass(frozen=True, slots=True)
class LakeObjects(ComputedKeys):
    """All objects of both states as the store lists them; `count` of them are there in the first state."""

    count: int = 0
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @classmethod
    def make(
        cls,
        count: int,
        now: datetime,
        *,
        one_slice: bool = False,
        slices: int | None = None,
        changed: float = 0.01,
    ) -> LakeObjects:
        """So many objects in slices of 10,000, or in so many; or one slice has half of all. `changed` is the share of new ones."""
        slices = slices or max(10, count // 10_000)
        new_slices = max(1, round(slices * changed))
        in_slices = count // 2 if one_slice else count
        newest = int((now - timedelta(days=2)).timestamp())
        objects = cls(
            prefix=f"{ROOT}data/",
            slices=slices + new_slices,
            objects_per_slice=in_slices // slices,
            # The first six characters of a slice's id count time in steps of four seconds.
            slice_head="",
            slice_tail="0" * 14,
            first_slice=(_DESCENDING_EPOCH - newest & 0xFFFFFFFF) >> 2,
            slice_step=max(1, _DAYS_OF_SLICES * 86_400 // (slices + new_slices) // 4),
            more_in_last=count - in_slices // slices * slices,
            size_bytes=_SMALLEST,
            last_modified=_iso(now - timedelta(days=2)),
            count=count,
            now=now,
        )
        objects.is_alive[: objects.new] = False
        return objects

    # -- ranks

    @property
    def new(self) -> int:
        """How many objects come with the second state."""
        return len(self) - self.count

    def indexes(self, ranks: Indexes) -> Indexes:
        """Places in the order of keys."""
        old = self.new + ranks * _SPREAD % self.count
        return np.where(ranks < self.count, old, ranks - self.count)

    def ranks(self, indexes: Indexes) -> Indexes:
        """Ranks of the objects at places in the order of keys."""
        old = (indexes - self.new) * _inverse_of_spread(self.count) % self.count
        return np.where(indexes < self.new, self.count + indexes, old)

    @property
    def head_slots(self) -> int:
        """How many ranges it takes to hold what heads read."""
        return _head_slots_of(self.count)

    def role(self, name: str) -> Indexes:
        """The ranks of one role."""
        bounds = self._bounds()[name]
        return np.arange(*bounds, dtype=np.int64)

    def role_of(self, rank: int) -> str:
        """The role of one object."""
        return next(name for name, (first, end) in self._bounds().items() if first <= rank < end)

    def _bounds(self) -> dict[str, tuple[int, int]]:
        return _bounds_of(self.count, self.new)

    # -- what an object is

    def is_small(self, ranks: Indexes) -> npt.NDArray[np.bool_]:
        """Which objects are small files of few sizes."""
        bounds = self._bounds()
        first, end = bounds["unreferenced"]
        in_slots = (ranks < bounds["head"][1]) & (
            ranks // ENTRIES_PER_RANGE % _SMALL_SLOTS_EVERY == 0
        )
        is_lost = (ranks >= first) & (ranks < first + _SMALL_OF_UNREFERENCED * (end - first))
        return in_slots | is_lost | _within(ranks, bounds["reupload"])

    def originals(self, ranks: Indexes) -> Indexes:
        """The committed objects that re-uploads have the bytes of; all else has its own."""
        first, end = self._bounds()["reupload"]
        small_slots = -(-self.head_slots // _SMALL_SLOTS_EVERY)
        number = ranks - first
        slots = (number % small_slots) * _SMALL_SLOTS_EVERY
        rows = number // small_slots * 3 + 1
        return np.where(_within(ranks, (first, end)), slots * ENTRIES_PER_RANGE + rows, ranks)

    def sizes(self, ranks: Indexes) -> Indexes:
        """Spread as those of real files are, but for small ones.

        What no commit holds has an odd size, and what a commit holds an even one: else some thousand pairs are equal by
        chance, and each has to be looked up on all branches that have its path.
        """
        mixed = ranks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        spread = _SMALLEST + ((mixed >> np.uint64(20)) % np.uint64(_SIZES)).astype(np.int64)
        bounds = self._bounds()
        is_committed = ranks < bounds["superseded"][1]
        for name in ("expired", "tagged", "new committed"):
            is_committed |= _within(ranks, bounds[name])
        spread = spread // 2 * 2 + ~is_committed
        return np.where(self.is_small(ranks), 1000 + self.originals(ranks) % 10 * 700, spread)

    def is_young(self, ranks: Indexes) -> npt.NDArray[np.bool_]:
        """Which objects are younger than the minimum age."""
        return _within(ranks, self._bounds()["young"])

    def checksum(self, rank: int) -> str:
        """An entry's checksum: the MD5 of a small file, and of others a text that no two share."""
        one = np.array([rank])
        return self.small_checksums(one)[0] if self.is_small(one)[0] else f"{rank:032x}"

    def small_checksums(self, ranks: Indexes) -> list[str]:
        """The MD5 sums of small files."""
        files = zip(self.originals(ranks).tolist(), self.sizes(ranks).tolist(), strict=True)
        return [md5(_bytes(*file), usedforsecurity=False).hexdigest() for file in files]

    # -- as the store and the server tell it

    def address(self, rank: int) -> str:
        """Relative to the namespace."""
        return self.key(int(self.indexes(np.array([rank]))[0])).removeprefix(ROOT)

    def addresses(self, ranks: Indexes) -> Bytes:
        """Addresses of many objects, a row of bytes for each."""
        return self.key_rows(self.indexes(ranks))[:, len(ROOT) :]

    def contents(self, indexes: Indexes) -> Bytes:
        """The `<Contents>` of up to a thousand keys, a row of bytes for each."""
        rows = ComputedKeys.contents(self, indexes)
        if not len(indexes):
            return rows
        ranks, first = self.ranks(indexes), bytes(rows[0])
        _fill_decimals(rows, first.index(b"<Size>") + len(b"<Size>"), self.sizes(ranks))
        at = first.index(b"<LastModified>") + len(b"<LastModified>")
        young = np.frombuffer(_iso(self._young_time).encode(), np.uint8)
        rows[self.is_young(ranks), at : at + len(young)] = young
        return rows

    def size(self, index: int) -> int:
        return int(self.sizes(self.ranks(np.array([index])))[0])

    def content(self, index: int) -> bytes:
        """Of small files alone: nobody has a reason to read another."""
        rank = self.ranks(np.array([index]))
        if not self.is_small(rank)[0]:
            raise LookupError(f"{self.key(index)} has no bytes here")
        return _bytes(int(self.originals(rank)[0]), int(self.sizes(rank)[0]))

    def modified_at(self, index: int) -> float:
        is_young = self.is_young(self.ranks(np.array([index])))[0]
        return (self._young_time if is_young else self.now - timedelta(days=2)).timestamp()

    @property
    def _young_time(self) -> datetime:
        return self.now - timedelta(hours=1)


_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_VALUES = np.zeros(256, np.int64)
_HEX_VALUES[_HEX] = np.arange(16)
_SHIFTS = np.arange(28, -1, -4)


@dataclass(frozen=True, slots=True)
class FlatObjects(LakeObjects):
    """The objects of a repository from before slices: all at the root, named by 32 hex digits spread evenly."""

    @classmethod
    def make_flat(cls, count: int, now: datetime) -> FlatObjects:
        """So many objects, and a hundredth more for the second state."""
        objects = cls(
            prefix=ROOT,
            slices=1,
            objects_per_slice=count + count // 100,
            size_bytes=_SMALLEST,
            last_modified=_iso(now - timedelta(days=2)),
            count=count,
            now=now,
        )
        objects.is_alive[: objects.new] = False
        return objects

    def key(self, index: int) -> str:
        return f"{ROOT}{(index << 32) // len(self):08x}7d3c5a9e0b1f42688d3c5a9e"

    def fill_keys(self, rows: Bytes, indexes: Indexes) -> None:
        numbers = (indexes << 32) // len(self)
        rows[:, len(ROOT) : len(ROOT) + 8] = _HEX[(numbers[:, None] >> _SHIFTS) & 15]

    def indexes_in(self, rows: Bytes) -> Indexes:
        digits = _HEX_VALUES[rows[:, len(ROOT) : len(ROOT) + 8]]
        return -(-(digits << _SHIFTS).sum(axis=1) * len(self) >> 32)


@cache
def _inverse_of_spread(count: int) -> int:
    return pow(_SPREAD, -1, count)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fill_decimals(rows: Bytes, start: int, numbers: Indexes) -> None:
    """Write numbers of nine digits into their rows."""
    for row in range(len(numbers)):
        number = numbers[row]
        for place in range(start + 8, start - 1, -1):
            rows[row, place] = 48 + number % 10
            number //= 10


def _head_slots_of(count: int) -> int:
    return int(SHARES["head"] * count) // ENTRIES_PER_RANGE


@cache
def _bounds_of(count: int, new: int) -> dict[str, tuple[int, int]]:
    """The ranks of every role, of so many objects and so many that come with the second state."""
    bounds, at = {}, count
    for name, share in NEW_SHARES.items():
        bounds[name] = (at, at + round(share * new))
        at = bounds[name][1]
    at = count
    for name, share in reversed(list(SHARES.items())[2:]):
        bounds[name] = (at - round(share * count), at)
        at = bounds[name][0]
    head = _head_slots_of(count) * ENTRIES_PER_RANGE
    return bounds | {"head": (0, head), "superseded": (head, at)}


def _bytes(rank: int, size: int) -> bytes:
    return f"object {rank} ".encode().ljust(size, b".")


def _within(ranks: Indexes, bounds: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return (ranks >= bounds[0]) & (ranks < bounds[1])


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
