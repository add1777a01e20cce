"""What one core can do of each kind of work in a collection, and nothing else: the limits that its phases are held against.

    python benchmarks/limits.py          prints them, some seconds; `growth.py --only limits` keeps them for the page

Of requests it is this process's own CPU that counts, not the server's, which is a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from bench_sstable import records
from bench_storage import delete_ours, list_ours_split, loopback, read_ours, store_at
from lake_objects import ENTRIES_PER_RANGE
from lakesweep.engine.cells import pack_hashes
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import read_range_hashes

_ROUNDS = 3
_LISTED, _READ, _DELETED = 300_000, 3_000, 50_000
_RANGES = 200
_HASHES, _PARTITIONS = 1_000_000, 16
_READ_BYTES = 31_400  # as a range of so many entries has


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of each kind of work one core does in a second of its own time."""

    keys_listed: float
    files_read: float
    entries_hashed: float
    bytes_unpacked: float  # of packed blocks, with those entries in them
    hashes_dealt: float  # to the partitions of a meeting
    keys_deleted: float


def measured() -> Limits:
    """The best of some rounds of each."""
    (written,) = write_ranges(list(records(ENTRIES_PER_RANGE)))
    hashed = _rate(
        _RANGES * ENTRIES_PER_RANGE,
        lambda: [read_range_hashes(written.data, expected_count=None) for _ in range(_RANGES)],
    )
    hashes = np.random.default_rng(17).integers(0, 1 << 63, _HASHES).astype(np.uint64)
    with loopback(_LISTED) as url:
        listed = _rate(_LISTED, partial(list_ours_split, store_at(url)))
    with loopback(_DELETED) as url:
        store = store_at(url)
        gone = list(store.keys("data/"))
        deleted = _rate(_DELETED, partial(delete_ours, store, gone))
    with loopback(_READ, _READ_BYTES) as url:
        store = store_at(url)
        keys = list(store.keys("data/"))
        read = _rate(_READ, partial(read_ours, store, keys))
    return Limits(
        keys_listed=listed,
        files_read=read,
        entries_hashed=hashed,
        bytes_unpacked=hashed * len(written.data) / ENTRIES_PER_RANGE,
        hashes_dealt=_rate(_HASHES, lambda: pack_hashes(1, hashes, _PARTITIONS)),
        keys_deleted=deleted,
    )


def _rate(count: int, work: Callable[[], object]) -> float:
    """So many for each second of this process's CPU, at its best."""
    best = float("inf")
    for _ in range(_ROUNDS):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return round(count / best)


if __name__ == "__main__":
    for name, per_second in asdict(measured()).items():
        print(f"{name.replace('_', ' ')}: {per_second:,.0f} a second")
