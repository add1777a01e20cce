"""An inventory read as a listing: rows of Parquet files into parts of candidates, beside pyarrow reading the same columns.

    python benchmarks/bench_inventory.py          1M rows in 4 files
    python benchmarks/bench_inventory.py --full   20M rows in 40 files

The files have the columns of an S3 Inventory: key, size, time, ETag and storage class, each with its MD5 sum. One row in a
hundred lies outside the namespace, and one in a thousand has no name that lakeFS gives. Spark is started before; the clock
runs from the manifest to the last part on disk, which is the phase `list` of a mark. It counts only if every row came out
once: rows, bytes, what was passed over, and the sum of the hashes of all addresses are those that the rows have by
construction. The yardstick reads the columns that the reader needs, with pyarrow's own threads, and writes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.inventory.opening import open_inventory
from lakesweep.collector.lakefs.inventory import list_inventory
from lakesweep.collector.listing import Listing
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.session import build_session
from lakesweep.engine.spark import SparkEngine
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import StorageOptions

_ROWS, _FULL_ROWS = 1_000_000, 20_000_000
_FILE_ROWS = {_ROWS: 250_000, _FULL_ROWS: 500_000}
_AT_MOST_SECONDS = 30.0  # for 20M rows
_OBJECTS_PER_SLICE = 10_000
_OUTSIDE_EVERY, _FOREIGN_EVERY = 100, 1000
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_COLUMNS = ["key", "size", "last_modified_date"]


@dataclass
class Expected:
    """What the rows come to."""

    listed: Tally = field(default_factory=Tally)
    protected: Tally = field(default_factory=Tally)
    outside: int = 0
    hashes: int = 0  # their sum, modulo 2^64

    def add(self, names: pa.Array, sizes: np.ndarray, kind: np.ndarray) -> None:
        """Count rows; of kind 0 are candidates, of 1 foreign files, of 2 those outside."""
        inside, foreign = kind < 2, kind == 1
        self.listed += Tally(int(inside.sum()), int(sizes[inside].sum()))
        self.protected += Tally(int(foreign.sum()), int(sizes[foreign].sum()))
        self.outside += int((kind == 2).sum())
        self.hashes += int(hash_addresses(names.filter(pa.array(kind == 0))).sum(dtype=np.uint64))
        self.hashes %= 1 << 64


def rows_of(first: int, count: int, namespace: str, expected: Expected) -> pa.Table:
    """So many rows from a number on."""
    numbers = np.arange(first, first + count)
    kind = np.zeros(count, np.int8)
    kind[numbers % _FOREIGN_EVERY == 0] = 1
    kind[numbers % _OUTSIDE_EVERY == 1] = 2
    scattered = (numbers * 2_654_435_761) % (1 << 32)  # names of neighbours differ, as xids do
    names = pa.array(
        [
            f"data/g{n // _OBJECTS_PER_SLICE:018d}0/c{s:018d}{'0g'[s & 1]}"
            if k == 0
            else f"data/foreign/{n}"
            for n, s, k in zip(numbers.tolist(), scattered.tolist(), kind.tolist(), strict=True)
        ]
    )
    prefixes = pa.array(np.where(kind == 2, "elsewhere/", f"{namespace}/"))
    sizes = scattered % 1_000_000
    expected.add(names, sizes, kind)
    times = pa.array(numbers * 1000 + int(_BEGIN.timestamp() * 1000)).cast(pa.timestamp("ms"))
    return pa.table(
        {
            "key": pa.compute.binary_join_element_wise(prefixes, names, ""),
            "size": sizes,
            "last_modified_date": times,
            "e_tag": pa.array([f"{s:032x}" for s in scattered.tolist()]),
            "storage_class": pa.repeat("STANDARD", count),
        }
    )


def write(folder: Path, rows: int, namespace: str) -> tuple[Expected, dict[str, str]]:
    """Write the files; what they come to, and the MD5 sum of each by its name."""
    expected, sums = Expected(), {}
    size = _FILE_ROWS[rows]
    for number, first in enumerate(range(0, rows, size)):
        path = folder / f"{number:04d}.parquet"
        table = rows_of(first, min(size, rows - first), namespace, expected)
        pq.write_table(table, path, compression="snappy")
        sums[path.name] = hashlib.md5(path.read_bytes()).hexdigest()
    return expected, sums


def check(target: Target, listing: Listing, expected: Expected) -> None:
    """Refuse a result that is not exactly that of the rows."""
    found = (listing.listed, listing.protected, listing.passed.get("outside", 0))
    if found != (expected.listed, expected.protected, expected.outside):
        raise SystemExit(f"{found} came out, and not {expected}")
    total = 0
    store = target.open()
    for part in listing.parts:
        for addresses in read_addresses(store.read(part.key), part.key):
            total += int(hash_addresses(addresses).sum(dtype=np.uint64))
    if total % (1 << 64) != expected.hashes:
        raise SystemExit("other addresses came out than those that the rows have")


def yardstick(folder: Path) -> float:
    """Seconds in which pyarrow reads the same columns of the same files."""
    start = time.monotonic()
    rows = sum(pq.read_table(path, columns=_COLUMNS).num_rows for path in sorted(folder.iterdir()))
    assert rows
    return time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="20M rows, and the figure counts")
    options = parser.parse_args()
    rows = _FULL_ROWS if options.full else _ROWS
    with tempfile.TemporaryDirectory(prefix="lakesweep-bench-") as name:
        folder, lake = Path(name, "inventory"), Path(name, "lake")
        folder.mkdir()
        lake.mkdir()
        expected, sums = write(folder, rows, str(lake).lstrip("/"))
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{rows:,} rows in {len(sums)} files, {size / 1e6:,.0f} MB; pyarrow {pa.__version__}")
        target = Target(Location.parse(lake.as_uri()), StorageOptions(local_fsync=False))
        session = build_session(master="local[2]")
        try:
            engine = SparkEngine(session)
            resources = Resources(target, engine, Phases("inventory"), utc_now)
            reads = yardstick(folder)
            start = time.monotonic()
            inventory = open_inventory(target, folder.as_uri())
            files = [
                replace(f, md5=sums[f.location.key.rpartition("/")[2]]) for f in inventory.files
            ]
            listing = list_inventory(resources, replace(inventory, files=tuple(files)), "listing/")
            seconds = time.monotonic() - start
        finally:
            session.stop()
        check(target, listing, expected)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    is_reached = seconds < _AT_MOST_SECONDS or not options.full
    print(f"pyarrow, the same columns: {reads:.1f} s, {rows / reads / 1e6:.1f}M rows/s")
    print(
        f"as a listing: {seconds:.1f} s, {rows / seconds / 1e6:.2f}M rows/s, {seconds / reads:.1f}× the reading alone, "
        f"exact (20M rows: at most {_AT_MOST_SECONDS:g} s), load {load}: {'ok' if is_reached else 'TOO SLOW'}"
    )
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
