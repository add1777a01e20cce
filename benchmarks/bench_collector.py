"""A whole collection beside a naive one: mark, plan and sweep of a lake by arithmetic, each as a process of its own.

The lake (scenario.py, with a server whose lists are whole, as the naive collector believes them) lies on loopback servers in this process, so their work is not counted as a collector's, though
it takes its share of the cores. Both collectors start from nothing, Spark included, on the same machine in the same
minutes, ours before and after the naive one, as the machine's speed changes; both must delete exactly the known garbage, and ours must have marked exactly that.

    python benchmarks/bench_collector.py              1M objects, 2.5M range entries, against the naive collector
    python benchmarks/bench_collector.py --full       the same, and 4M objects: what grows with them, and what does not
    python benchmarks/bench_collector.py --objects 2000000 --ours-only
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scenario import REPOSITORY, Scenario
from scenario_check import check_deleted, check_run
from scenario_server import ScenarioServer, serve
from watched import Watched, watch

_AT_LEAST_TIMES = 8.0
_MOST_SECONDS = 60.0
_OBJECTS, _MORE_OBJECTS = 1_000_000, 4_000_000
# How much more memory the driver may take for four times the objects: what one run differs from the next.
_NOISE_MIB = 60.0
_NAIVE = Path(__file__).with_name("naive_gc.py")


def run_ours(server: ScenarioServer) -> tuple[Watched, dict[str, Any]]:
    """`lakesweep gc`, checked: what it marked, what it deleted, what it says of both."""
    server.reset()
    before, expected = server.alive(), server.expected()
    words = ["gc", REPOSITORY, "--output", "json", "--no-progress"]
    seen = watch([sys.executable, "-m", "lakesweep", *words], os.environ | server.environment)
    if seen.status:
        raise SystemExit(f"lakesweep gc ended with status {seen.status}:\n{seen.err}")
    record = json.loads(seen.out)
    check_run(server, before, expected, record)
    return seen, record


def run_naive(server: ScenarioServer) -> Watched:
    """The naive collector, checked."""
    server.reset()
    before, expected = server.alive(), server.expected()
    here = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(_NAIVE.parent),  # its workers read ranges with plain_sstable.py
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    words = [sys.executable, str(_NAIVE), REPOSITORY]
    seen = watch(words, os.environ | server.environment | here)
    if seen.status:
        raise SystemExit(f"the naive collector ended with status {seen.status}:\n{seen.err}")
    check_deleted(server, before, expected)
    return seen


def describe_phases(record: dict[str, Any]) -> None:
    phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
    print(f"  phases, s: {phases}")


def compare(objects: int, *, with_naive: bool) -> tuple[Watched, bool]:
    """Both collectors on one scenario; whether the figures are reached. Ours runs before and after the naive one."""
    scenario = Scenario(objects)
    print(scenario)
    with serve(scenario, is_plain=True) as server:
        ours = [shown_ours(server)]
        if not with_naive:
            return ours[0], True
        naive = run_naive(server)
        print(f"naive:        {naive}")
        ours.append(shown_ours(server))
    seconds = sum(run.seconds for run in ours) / len(ours)
    cpu_seconds = sum(run.cpu_seconds for run in ours) / len(ours)
    times, cpu_times = naive.seconds / seconds, naive.cpu_seconds / cpu_seconds
    is_reached = times >= _AT_LEAST_TIMES and seconds < _MOST_SECONDS
    print(
        f"{times:.1f}× the naive collector (at least {_AT_LEAST_TIMES:g}×; {cpu_times:.1f}× by CPU), "
        f"{seconds:.1f} s on average (under {_MOST_SECONDS:g} s on two idle cores): "
        f"{'ok' if is_reached else 'TOO SLOW'}"
    )
    return ours[0], is_reached


def shown_ours(server: ScenarioServer) -> Watched:
    seen, record = run_ours(server)
    print(f"lakesweep gc: {seen}")
    describe_phases(record)
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--full", action="store_true", help="4M objects too, and the driver's memory"
    )
    parser.add_argument("--objects", type=int, default=_OBJECTS, help="a multiple of 20,000")
    parser.add_argument("--ours-only", action="store_true", help="leave the naive collector out")
    options = parser.parse_args()
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "pyarrow", "boto3"))
    print(f"{os.cpu_count()} cores; {versions}")
    ours, is_reached = compare(options.objects, with_naive=not options.ours_only)
    if options.full:
        more, _ = compare(_MORE_OBJECTS, with_naive=False)
        grown = more.peak_by_kind["driver"] - ours.peak_by_kind["driver"]
        is_bounded = grown <= _NOISE_MIB
        print(
            f"the driver's memory grew by {grown:.0f} MiB for {_MORE_OBJECTS / options.objects:g} times the objects "
            f"(at most {_NOISE_MIB:g}): {'ok' if is_bounded else 'TOO MUCH'}"
        )
        is_reached &= is_bounded
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
