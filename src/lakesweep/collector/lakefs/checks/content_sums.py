"""MD5 sums of what candidates hold, to tell which committed entries a candidate may be a re-upload of.

A server hides a staged entry where size and e_tag are those committed at its path. The e_tag of an upload is the MD5 of
its bytes, or, of a multipart upload, the MD5 of the MD5s of its parts. So a candidate whose bytes have other sums is no
hidden re-upload of that entry. Only entries whose e_tag has the form of an MD5 are ruled out so. A user's program may write
what it likes there: of each range some entries that were ruled out are read, and one whose bytes have other sums than its
e_tag says makes all sums worthless.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.suspects import Ints, Sizes, is_in
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.engine.cells import Hashes
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.entries import AddressType
from lakesweep.formats.ranges import RangeSums, read_range_addresses
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore
from lakesweep.storage.keys import odd_mask

__all__ = ["Contents", "Trial", "are_true", "reading_seconds", "sum_contents", "trial_of"]

# What is read of candidates at most: some seconds' worth. Sizes beyond it are looked up by their size alone.
_MOST_OBJECTS = 100_000
_MOST_BYTES = 1 << 30
# Stores take no smaller part than this but as the last, so what is smaller was uploaded in one part, or in none. Where the
# parts of a larger object ended, nobody knows.
_LARGEST = 5_000_000 - 1
_MOST_ON_DRIVER = 1_000
_SECONDS_PER_OBJECT = 0.0006
_SECONDS_PER_BYTE = 5e-9

SIZES_SCHEMA = pa.schema([pa.field("sizes", pa.binary()), pa.field("counts", pa.binary())])
SUMS_SCHEMA = pa.schema(
    [
        pa.field("rows", pa.int64()),  # of garbage that were looked at, whatever their size
        pa.field("sums", pa.binary()),
        pa.field("unread", pa.binary()),  # sizes of candidates that were not there to be read
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Sizes of all candidates, and the sums (ascending, two of each object) of every candidate whose size is in `summed`."""

    sizes: Sizes = field(default_factory=Sizes)
    summed: Sizes = field(default_factory=Sizes)
    sums: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    _are_all_summed: bool = field(init=False)  # asked for each range; the sizes may be a million

    def __post_init__(self) -> None:
        object.__setattr__(self, "_are_all_summed", not len(self.sizes - self.summed))

    def without(self, sizes: Sizes) -> Contents:
        """These contents without the candidates of some sizes."""
        return Contents(self.sizes - sizes, self.summed - sizes, self.sums)

    def without_sums(self) -> Contents:
        """The sizes without any sums, for where the sums of entries are not to be trusted."""
        return Contents(self.sizes)

    def have_size(self, entries: RangeSums) -> npt.NDArray[np.bool_]:
        """Which entries may have the size of a candidate: those that say so, and those whose client told none that an object has."""
        return self.sizes.matches(entries.sizes) | _are_unknown(entries.sizes)

    def are_ruled_out(self, entries: RangeSums) -> npt.NDArray[np.bool_]:
        """Which entries are no re-upload of any candidate: all candidates of the entry's size have other MD5 sums."""
        is_summed = self.summed.matches(entries.sizes)
        if self._are_all_summed:
            is_summed |= _are_unknown(entries.sizes)
        return is_summed & entries.is_md5 & ~is_in(entries.sums, self.sums)

    def sizes_among(self, sizes: Ints) -> Ints:
        """The sizes of candidates that entries of these sizes may have."""
        return self.sizes.values if _are_unknown(sizes).any() else np.unique(sizes)


def _are_unknown(sizes: Ints) -> npt.NDArray[np.bool_]:
    """Which sizes no object has. That of a linked object is its client's word, mostly -1 where the client did not know it."""
    return sizes < 0


def sum_contents(
    resources: Resources, sizes: Sizes, garbage: Sequence[Part], unreferenced: int | None = None
) -> Contents:
    """Read candidates of these sizes that no commit holds: the cheapest sizes first, while there is room.

    `unreferenced` is how many of the garbage no commit holds, where that is known.
    """
    total = tally_of(garbage)
    chosen = sizes
    if total.objects > _MOST_OBJECTS or total.bytes > _MOST_BYTES:
        rows = resources.run_on_parts(
            garbage, partial(_count_sizes, resources.target, sizes), SIZES_SCHEMA
        )
        chosen = _affordable(
            np.concatenate([np.frombuffer(row["sizes"], np.int64) for row in rows]),
            np.concatenate([np.frombuffer(row["counts"], np.int64) for row in rows]),
        )
    chosen = Sizes(chosen.values[chosen.values <= _LARGEST])
    work = partial(_sum_parts, resources.target, chosen)
    if not len(chosen) or not garbage:
        return Contents(sizes)
    if total.objects <= _MOST_ON_DRIVER:
        rows = [row for batch in work(part.key for part in garbage) for row in batch.to_pylist()]
    else:
        objects = total.objects if unreferenced is None else unreferenced
        seconds = reading_seconds(objects, total.bytes)
        rows = resources.run_on_parts(garbage, work, SUMS_SCHEMA, seconds)
    if sum(row["rows"] for row in rows) != total.objects:
        raise UnsafeToSweepError(
            f"Candidates of {resources.name} were lost while their contents were read. Nothing more was deleted. Run again.",
            kind="not-conserved",
        )
    unread = np.concatenate([np.frombuffer(row["unread"], np.int64) for row in rows])
    sums = np.concatenate([np.frombuffer(row["sums"], np.uint64) for row in rows])
    # Where one candidate of a size was not read, the sums of that size are not those of all.
    return Contents(sizes, chosen - Sizes(np.unique(unread)), np.unique(sums))


def reading_seconds(objects: int, size_bytes: int) -> float:
    """About how many seconds of one core it takes to read this many objects and to compute their MD5 sums."""
    return objects * _SECONDS_PER_OBJECT + size_bytes * _SECONDS_PER_BYTE


@dataclass(frozen=True, slots=True)
class Trial:
    """Some objects of a range's entries that were ruled out, with the sums that their e_tags say."""

    addresses: Sequence[str]
    said: Sequence[int]


def trial_of(data: bytes, entries: RangeSums, ruled_out: Ints, most: int) -> Trial:
    """At most `most` of a range's entries at these places; none whose name can't be read as it is."""
    tried = read_range_addresses(data, expected_count=None).take(pa.array(ruled_out))
    names = tried.column("address")
    is_relative = pc.equal(tried.column("address_type"), int(AddressType.RELATIVE))
    places = pc.indices_nonzero(pc.and_not(is_relative, odd_mask(names))).to_pylist()
    places = random.sample(places, min(most, len(places)))
    addresses = [names[place].as_py() for place in places]
    return Trial(addresses, entries.sums[ruled_out][places].tolist())


def are_true(store: ObjectStore, trials: Sequence[Trial]) -> bool:
    """Whether the e_tags of ranges are sums of bytes, by the objects that are tried of each.

    Objects that are gone tell nothing. Where all of a range are such, nothing is known of it, which is as good as untrue.
    """
    found = _sums(store, [address for trial in trials for address in trial.addresses])
    for trial in trials:
        read = islice(found, len(trial.addresses))
        told = [s in one.sums for one, s in zip(read, trial.said, strict=True) if one is not None]
        if not told or not all(told):
            return False
    return True


def _affordable(sizes: Ints, counts: Ints) -> Sizes:
    """The sizes whose candidates take the fewest bytes, as many as may be read."""
    distinct, place = np.unique(sizes, return_inverse=True)
    objects = np.zeros(len(distinct), np.int64)
    np.add.at(objects, place, counts)
    order = np.argsort(distinct * objects, kind="stable")
    has_room = np.cumsum(objects[order]) <= _MOST_OBJECTS
    has_room &= np.cumsum((distinct * objects)[order]) <= _MOST_BYTES
    return Sizes(np.sort(distinct[order[has_room]]))


def _count_sizes(target: Target, sizes: Sizes, parts: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: how many candidates of each size no commit holds."""
    for _, _, rows in _unreferenced(target, sizes, parts):
        distinct, counts = np.unique(rows.column("size_bytes").to_numpy(), return_counts=True)
        row = {"sizes": distinct.tobytes(), "counts": counts.astype(np.int64).tobytes()}
        yield pa.RecordBatch.from_pylist([row], schema=SIZES_SCHEMA)


def _sum_parts(target: Target, sizes: Sizes, parts: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: the sums of candidates of these sizes that no commit holds."""
    for store, count, rows in _unreferenced(target, sizes, parts):
        found = list(_sums(store, rows.column("address").to_pylist()))
        lengths = rows.column("size_bytes").to_numpy()
        is_read = [
            read is not None and read.length == length
            for read, length in zip(found, lengths.tolist(), strict=True)
        ]
        sums = np.array([s for read in found if read is not None for s in read.sums], np.uint64)
        unread = lengths[~np.array(is_read, bool)]
        row = {
            "rows": count,
            "sums": sums.tobytes(),
            "unread": unread.astype(np.int64).tobytes(),
        }
        yield pa.RecordBatch.from_pylist([row], schema=SUMS_SCHEMA)


def _unreferenced(
    target: Target, sizes: Sizes, parts: Iterator[str]
) -> Iterator[tuple[ObjectStore, int, pa.Table]]:
    """The store, and of each part how many rows it has and those of these sizes that no commit holds."""
    store = target.open()
    for _, data in store.read_many(list(parts)):
        rows = read_mark(data)
        has_size = sizes.matches(rows.column("size_bytes").fill_null(-1).to_numpy())
        is_unreferenced = pc.equal(rows.column("reason"), "unreferenced")
        yield store, rows.num_rows, rows.filter(pc.and_(pa.array(has_size), is_unreferenced))


class _Read(NamedTuple):
    """What the bytes of one object are: their sums, as an e_tag may have them, and how many they are."""

    sums: tuple[int, int]  # uploaded whole, and as the one part of a multipart upload
    length: int


def _sums(store: ObjectStore, keys: Sequence[str]) -> Iterator[_Read | None]:
    """Sums and length of each object, in the order of the keys; None where it is gone."""
    for _, data in store.read_present(keys):
        if data is None:
            yield None
            continue
        whole = _md5(data)
        yield _Read((_as_number(whole), _as_number(_md5(whole))), len(data))


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _as_number(digest: bytes) -> int:
    """Its first eight bytes."""
    return int.from_bytes(digest[:8])
