"""What no test or demo should pay for: the jitted code compiled, a Java found, Spark's classes archived."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import find_retained, least_days
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId
from lakesweep.domain.rules import RetentionRules
from lakesweep.engine.rehearsal import make_class_archive
from lakesweep.errors import LakesweepError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import open_range, read_range_addresses, read_range_hashes
from lakesweep.formats.refs_dump import RefsDump, read_dumped_refs, write_refs_dump
from lakesweep.formats.values import join_value
from lakesweep.java import find_java_home
from lakesweep.storage.s3.page_scan import scan_rows
from lakesweep_testing.warmup import warm_up_iceberg


def main() -> int:
    try:
        home = find_java_home()
    except LakesweepError as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return problem.exit_status
    began = time.monotonic()
    compile_by_use()
    seconds = time.monotonic() - began
    print(f"setup: Java is {home}; jitted code ready after {seconds:.0f} s", file=sys.stderr)
    began = time.monotonic()
    archive = make_class_archive()
    said = "ready" if archive else "could not be made; Spark starts without it"
    print(
        f"setup: Spark's class archive {said} ({time.monotonic() - began:.0f} s)", file=sys.stderr
    )
    return 0


def compile_by_use() -> None:
    """Write a small range and read it in every way; read a page of an S3 listing, an Avro file and a refs dump."""
    row = (
        b"<Contents><Key>a/b</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified>"
        b"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
    )
    assert scan_rows(row, 0, b"a/", is_encoded=True) is not None
    hash_addresses(pa.array(["data/slice/object"]))
    hash_addresses(pa.array(["data/slice/object"], pa.large_string()))
    warm_up_iceberg()
    for written in write_ranges(sample_records(1000)):
        read_range_hashes(written.data, expected_count=written.count)
        read_range_addresses(written.data, expected_count=written.count)
        open_range(written.data).records()
    read_history()


def read_history() -> None:
    """Two commits, from a dump to what rules make of them."""
    now = datetime(2024, 5, 1, tzinfo=UTC)
    first, second = CommitId("1" * 64), CommitId("2" * 64)
    commits = [
        Commit(first, "", "", now, MetaRangeId(""), ()),
        Commit(second, "", "", now, MetaRangeId("3" * 64), (first,)),
    ]
    heads = [BranchHead(BranchId("main"), second)]
    dump = write_refs_dump(RefsDump(commits, heads, []))
    history = History(read_dumped_refs(dict(dump.files).__getitem__, dump.manifest).commits)
    find_retained(history, heads, RetentionRules(7), now)
    least_days(history, heads, now)


def sample_records(count: int) -> Iterator[tuple[bytes, bytes]]:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    for number in range(count):
        # Both kinds of address take their own road through the readers.
        kind = AddressType.RELATIVE if number % 10 else AddressType.FULL
        entry = Entry(f"data/slice/{number:06}", at, number, "etag", {}, kind, "text/plain")
        yield f"path/{number:06}".encode(), join_value(b"identity", entry.encode())


if __name__ == "__main__":
    sys.exit(main())
