"""The embedded lake's two heavy calls, on SQLite and local files: the list of uncommitted objects, and a large commit.

Staged entries are loaded straight into the ref store, made by arithmetic. Each call runs in a process of its own, whose
peak memory is reported. The promises are those at full size (`--full`); smaller runs are held to the same rate per row.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from lakesweep.formats.entries import Entry
from lakesweep.formats.values import join_value
from lakesweep.lake.kv.interface import KeyValueStore, Row
from lakesweep.lake.kv.sql import open_sql_store
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import LakeSettings

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_REPOSITORY = "bench"
_BATCH = 50_000
_XID_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_OBJECT_BASE, _SLICE_BASE = 1_767_225_600, 2_163_625_984
_MACHINE_AND_PROCESS = 0x5A17C30B2D
# Prime, and coprime to each other: every number gets an address of its own.
_OBJECTS, _SHUFFLE = 5_000_011, 2_654_435_761


@dataclass(frozen=True, slots=True)
class Size:
    """How much is staged and committed, and in what time and memory the full size must pass."""

    branches: int
    staged: int
    onto: int

    prepare_seconds: float
    commit_seconds: float


FULL = Size(1000, 5_000_000, 1_000_000, prepare_seconds=30, commit_seconds=30)
# A tenth of the rows in a fifth of the time: what a process costs before its first row does not shrink with them.
QUICK = Size(100, 500_000, 100_000, prepare_seconds=6, commit_seconds=6)
_PREPARE_MIB, _COMMIT_MIB = 1024, 2048


def open_lake(folder: Path) -> tuple[Lake, KeyValueStore]:
    kv = open_sql_store(f"sqlite:///{folder}/refs.db")
    return Lake(kv, LakeSettings(data_dir=folder / "data"), lambda: _NOW), kv


def staged_rows(first: int, step: int, count: int) -> Iterator[Row]:
    """Entries number first, first + step, …: paths in order, addresses in the order of a shuffled upload."""
    for number in range(first, first + step * count, step):
        entry = Entry(
            address=_address(number), last_modified=_NOW, size=number, e_tag=f"{number:032x}"
        )
        identity = hashlib.sha256(entry.e_tag.encode()).digest()
        path = b"table/part-%03d/file-%09d.parquet" % (number // 100_000, number)
        yield path, join_value(identity, entry.encode())


def _address(number: int) -> str:
    """What a server gives out: 50,000 objects to a slice, ids that count up, 500 of them in a second."""
    turn = number * _SHUFFLE % _OBJECTS
    slice_number = turn // 50_000
    return f"data/{_xid(_SLICE_BASE - 3600 * slice_number, slice_number)}/{_xid(_OBJECT_BASE + turn // 500, turn)}"


def _xid(seconds: int, counter: int) -> str:
    bits = (seconds << 64 | _MACHINE_AND_PROCESS << 24 | counter % (1 << 24)) << 4
    return "".join([_XID_ALPHABET[(bits >> shift) & 31] for shift in range(95, -1, -5)])


def load(kv: KeyValueStore, token: str, rows: Iterator[Row]) -> None:
    for batch in iter(lambda: list(islice(rows, _BATCH)), []):
        kv.set_many(token, batch)


def load_staged(folder: Path, size: Size) -> None:
    lake, kv = open_lake(folder)
    lake.repositories.create(_REPOSITORY, "local://bench")
    per_branch = size.staged // size.branches
    for number in range(size.branches):
        branch = lake.refs.create_branch(lake.writable(_REPOSITORY), f"branch-{number:04d}", "main")
        load(kv, branch.staging_token, staged_rows(number * per_branch, 1, per_branch))
    lake.close()


def load_commit(folder: Path, size: Size) -> None:
    """Commit the even numbers, stage the odd ones: every range changes everywhere."""
    lake, kv = open_lake(folder)
    lake.repositories.create(_REPOSITORY, "local://bench")
    for first in (0, 1):
        token = lake.branches.head(lake.repositories.get(_REPOSITORY), "main").staging_token
        load(kv, token, staged_rows(first, 2, size.onto))
        if first == 0:
            lake.committing.commit(lake.writable(_REPOSITORY), "main", "first", committer="bench")
    lake.close()


def prepare(folder: Path) -> None:
    lake, _ = open_lake(folder)
    started = time.perf_counter()
    page = lake.uncommitted_list.prepare(lake.writable(_REPOSITORY))
    pages = 1
    while page.continuation_token is not None:
        page = lake.uncommitted_list.prepare(lake.writable(_REPOSITORY), page.continuation_token)
        pages += 1
    seconds = time.perf_counter() - started
    print(seconds, _peak_mib(), f"{page.total_rows:,} rows in {pages} files")
    lake.close()


def commit(folder: Path) -> None:
    lake, _ = open_lake(folder)
    started = time.perf_counter()
    made = lake.committing.commit(lake.writable(_REPOSITORY), "main", "second", committer="bench")
    seconds = time.perf_counter() - started
    print(seconds, _peak_mib(), f"metarange {made.meta_range_id[:12]}")
    lake.close()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(call: str, folder: Path, most_seconds: float, most_mib: float, what: str) -> bool:
    """Run one call in a process of its own; whether it kept its promise."""
    command = [sys.executable, __file__, "--only", call, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(" ", 2)
    seconds, mib = float(done[0]), float(done[1])
    is_kept = seconds < most_seconds and mib < most_mib
    verdict = "ok" if is_kept else "MISSED"
    print(
        f"{what}: {seconds:.1f} s (under {most_seconds:g}), peak {mib:,.0f} MiB"
        f" (under {most_mib:,.0f}) {verdict}; {done[2].strip()}",
        flush=True,
    )
    return is_kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="5M staged, commit of 1M onto 1M")
    parser.add_argument("--only", nargs=2, metavar=("CALL", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        call, folder = arguments.only
        {"prepare": prepare, "commit": commit}[call](Path(folder))
        return
    size = FULL if arguments.full else QUICK
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, SQLite and local files")
    with tempfile.TemporaryDirectory() as scratch:
        staged, onto = Path(scratch, "staged"), Path(scratch, "onto")
        load_staged(staged, size)
        is_kept = measure(
            "prepare",
            staged,
            size.prepare_seconds,
            _PREPARE_MIB,
            f"prepare uncommitted, {size.staged:,} staged on {size.branches:,} branches",
        )
        load_commit(onto, size)
        is_kept &= measure(
            "commit",
            onto,
            size.commit_seconds,
            _COMMIT_MIB,
            f"commit of {size.onto:,} staged onto {size.onto:,} committed",
        )
    if not is_kept:
        raise SystemExit("a promise was not kept")


if __name__ == "__main__":
    main()
