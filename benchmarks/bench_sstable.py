"""Reading range files with all checks on, against a plain-Python reader without them, and over two tasks.

The files are ours, written by the product's own writer (which real lakeFS reads): paths of 40 bytes, addresses as
lakeFS issues them, 32 bytes of identity, an MD5 for a tag. Both sides read the same files in the same run.

Most range files of a lake are small (a commit of a few hundred objects), and what a file costs apart from its entries
counts there: small files are read by one thread and by many, against the rate of large files in the same run.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from multiprocessing.synchronize import Barrier
from pathlib import Path

from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import (
    open_range,
    read_range_addresses,
    read_range_hashes,
    read_range_sums,
)
from lakesweep.formats.values import join_value
from lakesweep.formats.xid import new_descending_xid, new_xid
from lakesweep_testing.warmup import warm_up
from plain_sstable import read_addresses

_AT_LEAST_TIMES = 15.0
_AT_LEAST_OVER_TWO_TASKS = 3_000_000.0
_ENTRIES, _FULL_ENTRIES = 300_000, 1_000_000
_REPEATS = 5
_SMALL_FILES, _SMALL_ENTRIES = 400, 417
_AT_LEAST_OF_LARGE = 0.5
_THREADS = 32
_TASKS = 2


def records(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Entries as a commit of Parquet files has them."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    slice_id = new_descending_xid(start)
    for number in range(count):
        e_tag = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
        address = f"data/{slice_id}/{new_xid(start + timedelta(seconds=number))}"
        entry = Entry(
            address, start + timedelta(milliseconds=number), number, e_tag, {}, content_type="x/y"
        )
        value = join_value(entry_identity(number, e_tag, {}, "x/y"), entry.encode())
        yield b"tables/orders/part-%08d.snappy.parquet" % number, value


def rate(count: int, work: Callable[[], object], repeats: int = _REPEATS) -> float:
    """Entries per second, the best of several runs: what else runs here can only slow them down."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return count / best


def read_files(paths: list[Path]) -> int:
    """What a task does: read files from disk and hash their addresses."""
    return sum(read_range_hashes(path.read_bytes(), expected_count=None).count for path in paths)


def task(paths: list[Path], rounds: int, ready: Barrier) -> None:
    read_files(paths)
    ready.wait()
    for _ in range(rounds):
        read_files(paths)
    ready.wait()


def rate_over_tasks(paths: list[Path], count: int) -> float:
    """Entries per second of all tasks together, each a process that reads all files."""
    rounds = max(1, 3_000_000 // count)
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(_TASKS + 1)
    tasks = [spawn.Process(target=task, args=(paths, rounds, ready)) for _ in range(_TASKS)]
    for process in tasks:
        process.start()
    ready.wait()
    started = time.perf_counter()
    ready.wait()
    seconds = time.perf_counter() - started
    for process in tasks:
        process.join()
    return _TASKS * rounds * count / seconds


def small_files(large_rate: float) -> float:
    """Print what a small file costs; returns its entries per second as a share of the large files' rate."""
    pairs = list(records(_SMALL_FILES * _SMALL_ENTRIES))
    files = [
        written.data
        for at in range(0, len(pairs), _SMALL_ENTRIES)
        for written in write_ranges(pairs[at : at + _SMALL_ENTRIES])
    ]
    steps: dict[str, Callable[[bytes], object]] = {
        "open": open_range,
        "hashes": lambda data: read_range_hashes(data, expected_count=None),
        "sums": read_range_sums,
    }

    def cost(step: Callable[[bytes], object]) -> float:
        return 1e6 / rate(len(files), lambda: [step(data) for data in files])

    microseconds = {name: cost(step) for name, step in steps.items()}
    with ThreadPoolExecutor(_THREADS) as pool:
        over_threads = 1e6 / rate(len(files), lambda: list(pool.map(steps["hashes"], files)))
    print(
        f"{len(files)} small files of {len(pairs) / len(files):.0f} entries, {sum(map(len, files)) / len(files):,.0f} bytes: "
        + ", ".join(f"{name} {each:.0f} µs" for name, each in microseconds.items())
        + f" a file; hashes with {_THREADS} threads {over_threads:.0f} µs a file"
    )
    return len(pairs) / len(files) / microseconds["hashes"] * 1e6 / large_rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="a million entries")
    count = _FULL_ENTRIES if parser.parse_args().full else _ENTRIES
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(records(count))
        started = time.perf_counter()
        files = [written.data for written in write_ranges(pairs)]
        write_rate = count / (time.perf_counter() - started)
        paths = [Path(folder, str(number)) for number in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        print(
            f"{count:,} entries in {len(files)} files of {sum(map(len, files)) / count:.0f} bytes an entry; "
            f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, numba {version('numba')}"
        )
        plain = rate(count, lambda: [sum(1 for _ in read_addresses(data)) for data in files], 2)
        addresses = rate(
            count, lambda: [read_range_addresses(data, expected_count=None) for data in files]
        )
        hashes = rate(
            count, lambda: [read_range_hashes(data, expected_count=None) for data in files]
        )
        over_tasks = max(rate_over_tasks(paths, count) for _ in range(2))
    ratio = addresses / plain
    share = small_files(hashes)
    is_kept = (
        ratio >= _AT_LEAST_TIMES
        and over_tasks >= _AT_LEAST_OVER_TWO_TASKS
        and share >= _AT_LEAST_OF_LARGE
    )
    print(
        f"hashes of small files: {share * hashes:,.0f} entries/s = {share:.2f} of large files' "
        f"(at least {_AT_LEAST_OF_LARGE:g})"
    )
    print(f"plain Python, no checks: {plain:,.0f} entries/s")
    print(
        f"addresses, all checks: {addresses:,.0f} entries/s = {ratio:.1f}× (at least {_AT_LEAST_TIMES:g}×)"
    )
    print(f"hashes, all checks: {hashes:,.0f} entries/s")
    print(
        f"hashes over {_TASKS} tasks, files read from disk: {over_tasks:,.0f} entries/s "
        f"(at least {_AT_LEAST_OVER_TWO_TASKS:,.0f})"
    )
    print(f"writing: {write_rate:,.0f} entries/s")
    print("ok" if is_kept else "TOO SLOW")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
