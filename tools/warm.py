"""What no test or demo should pay for: the jitted code compiled, a Java found, Spark's classes archived."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import find_retained, least_days
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId
from lakesweep.domain.rules import RetentionRules
from lakesweep.engine.rehearsal import make_class_archive
from lakesweep.errors import LakesweepError
from lakesweep.formats.refs_dump import RefsDump, read_dumped_refs, write_refs_dump
from lakesweep.java import find_java_home
from lakesweep_testing.warmup import warm_up


def main() -> int:
    try:
        home = find_java_home()
    except LakesweepError as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return problem.exit_status
    began = time.monotonic()
    warm_up()
    read_history()
    seconds = time.monotonic() - began
    print(f"setup: Java is {home}; jitted code ready after {seconds:.0f} s", file=sys.stderr)
    began = time.monotonic()
    archive = make_class_archive()
    said = "ready" if archive else "could not be made; Spark starts without it"
    print(
        f"setup: Spark's class archive {said} ({time.monotonic() - began:.0f} s)", file=sys.stderr
    )
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
