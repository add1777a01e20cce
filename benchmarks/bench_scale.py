"""The bottom line of the seeds and what comes after it: first run, waiting servers, sweep, second runs, skewed shapes.

    python benchmarks/bench_scale.py                       a hundredth of the seed's scenario, some minutes
    python benchmarks/bench_scale.py --full                all of it: 20M objects, 1K branches, 30K commits, 120K ranges
    python benchmarks/bench_scale.py --scale 0.05 --only mark,latency
    python benchmarks/bench_scale.py --server embedded     mark and sweep with the embedded lake as the server
    python benchmarks/bench_scale.py --errors 0.01 --throttle 0.01 --latency-ms 20

The lake (scenario.py) lies on a loopback server in this process. Each command is a process of its own, timed from its
start to its end, and only if its result is exactly what the lake has by construction. The yardstick of a first run is
what the server itself needs to answer it, which no client can undercut; that of the others is the first run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loopback_http import Load, Trouble
from scenario import REPOSITORY, SHAPES, Scenario
from scenario_check import check_deleted, check_mark, check_run
from scenario_embedded import serve_embedded
from scenario_server import ScenarioServer, serve
from watched import Watched, watch

_SMALL = 0.01
_LATENCY_SECONDS = 0.05
_MOST_MARK_SECONDS, _MOST_SWEEP_SECONDS, _MOST_MIB = 100.0, 35.0, 2.5 * 1024
_MOST_WITH_LATENCY, _MOST_SKEWED = 1.5, 1.5
_MOST_SECOND, _MOST_OPTIMIZED = 0.1, 0.1
_MOST_NOTHING_NEW_SECONDS = 8.0  # of 1M objects
_GROUPS = ("mark", "latency", "sweep", "second", "shapes")


@dataclass(frozen=True, slots=True)
class Run:
    """One command that did what it should have."""

    seen: Watched
    record: dict[str, Any]
    load: Load

    @property
    def seconds(self) -> float:
        """Wall time of the whole process."""
        return self.seen.seconds

    def without(self, *phases: str) -> float:
        """Wall time without some phases."""
        left_out = [p["seconds"] for p in self.record["phases"] if p["name"] in phases]
        return self.seconds - sum(left_out)

    def show(self, what: str) -> None:
        """Print all that was measured."""
        phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in self.record["phases"])
        print(f"{what}: {self.seen}\n  phases, s: {phases}\n  server: {self.load}", flush=True)


@dataclass(slots=True)
class Figures:
    """What was asked, and whether it was reached."""

    missed: list[str] = field(default_factory=list)

    def tell(self, what: str, found: float, most: float, unit: str) -> None:
        """Print one figure beside what it may be at most."""
        is_reached = found <= most
        print(
            f"= {what}: {found:.2f}{unit} (at most {most:g}{unit}): {'ok' if is_reached else 'MISSED'}"
        )
        if not is_reached:
            self.missed.append(what)


def lakesweep(server: ScenarioServer, *words: str) -> Run:
    """One command as a process; ends everything when it fails."""
    server.take_load()
    command = [sys.executable, "-m", "lakesweep", *words, "--output", "json", "--no-progress"]
    seen = watch(command, os.environ | server.environment)
    if seen.status:
        raise SystemExit(f"{' '.join(words)} ended with status {seen.status}:\n{seen.err}")
    return Run(seen, json.loads(seen.out), server.take_load())


def mark(server: ScenarioServer, flow: str) -> Run:
    """A mark that is exact."""
    expected = server.expected()
    run = lakesweep(server, "mark", REPOSITORY, "--run", flow)
    check_mark(server, expected, run.record["mark_id"])
    if run.record["flow"] != flow:
        raise SystemExit(f"a {run.record['flow']} run, and not a {flow} one")
    return run


def sweep(server: ScenarioServer, mark_id: str) -> Run:
    """A sweep that deletes exactly the garbage."""
    before, expected = server.alive(), server.expected()
    run = lakesweep(server, "sweep", REPOSITORY, "--mark-id", mark_id)
    check_run(server, before, expected, run.record)
    return run


def first_runs(server: ScenarioServer, wanted: set[str], figures: Figures) -> Run:
    """The clean mark, alone and with a server far away, and the sweep of what it found."""
    server.reset()
    first = mark(server, "clean")
    first.show("clean mark")
    figures.tell("clean mark", first.seconds, _MOST_MARK_SECONDS, " s")
    print(f"  {first.seconds / first.load.cpu_seconds:.2f} × what the server's own work took")
    figures.tell("peak, shared pages once", first.seen.peak_shared_once_mib, _MOST_MIB, " MiB")
    if "latency" in wanted:
        server.reset()
        trouble = server.s3.trouble
        usual, trouble.latency_seconds = trouble.latency_seconds, _LATENCY_SECONDS
        late = mark(server, "clean")
        trouble.latency_seconds = usual
        late.show(f"clean mark, {_LATENCY_SECONDS * 1000:.0f} ms a request")
        figures.tell("with latency", late.seconds / first.seconds, _MOST_WITH_LATENCY, " ×")
        first_id = late.record["mark_id"]
    else:
        first_id = first.record["mark_id"]
    if wanted & {"sweep", "second"}:
        swept = sweep(server, first_id)
        swept.show("sweep")
        figures.tell("sweep", swept.seconds, _MOST_SWEEP_SECONDS, " s")
        figures.tell(
            "peak of the sweep, shared pages once",
            swept.seen.peak_shared_once_mib,
            _MOST_MIB,
            " MiB",
        )
    return first


def second_runs(server: ScenarioServer, first: Run, figures: Figures) -> None:
    """After the first was swept and a hundredth changed: optimized and clean, then with nothing new."""
    server.change()
    optimized = mark(server, "optimized")
    optimized.show("optimized mark, 1 % changed")
    share = optimized.seconds / first.seconds
    figures.tell("optimized after 1 %, of the clean", share, _MOST_OPTIMIZED, " ×")
    second = mark(server, "clean")
    second.show("clean mark, 1 % changed")
    share = second.without("list") / first.without("list")
    figures.tell("second clean without its listing, of the first", share, _MOST_SECOND, " ×")
    sweep(server, second.record["mark_id"]).show("sweep of the second")
    before = server.alive()
    nothing = lakesweep(server, "gc", REPOSITORY, "--run", "optimized")
    check_deleted(server, before, server.expected())
    nothing.show("optimized run with nothing new")
    figures.tell("nothing new", nothing.seconds, _MOST_NOTHING_NEW_SECONDS, " s")


def skewed(objects: int, shape: str, even: Run, trouble: Callable[[], Trouble]) -> float:
    """How much longer a skewed shape takes than the even one."""
    scenario = Scenario(objects, shape)
    print(scenario)
    with serve(scenario, trouble()) as server:
        run = mark(server, "clean")
    run.show(f"clean mark, {shape}")
    return run.seconds / even.seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="scale 1; a missed figure is a failure")
    parser.add_argument("--scale", type=float, default=_SMALL, help="at least 0.001")
    parser.add_argument("--only", default=",".join(_GROUPS), help=f"some of {','.join(_GROUPS)}")
    parser.add_argument(
        "--shape", action="append", choices=SHAPES, help="these skewed shapes alone"
    )
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before each answer")
    parser.add_argument("--errors", type=float, default=0.0, help="share of requests that fail")
    parser.add_argument("--throttle", type=float, default=0.0, help="share that is throttled")
    parser.add_argument(
        "--server", choices=("loopback", "embedded"), default="loopback", help="who gives the API"
    )
    parser.add_argument("--seed", type=int, default=17, help="of errors and throttling")
    options = parser.parse_args()
    wanted, figures = set(options.only.split(",")), Figures()
    if not wanted <= set(_GROUPS):
        parser.error(f"--only takes some of {','.join(_GROUPS)}")

    def trouble() -> Trouble:
        latency = options.latency_ms / 1000
        return Trouble(latency, options.errors, options.throttle, options.seed)

    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "pyarrow"))
    print(f"{os.cpu_count()} cores; {versions}")
    scenario = Scenario.at_scale(1.0 if options.full else options.scale)
    print(scenario, flush=True)
    if options.server == "embedded":
        with (
            tempfile.TemporaryDirectory() as folder,
            serve_embedded(scenario, Path(folder), trouble()) as server,
        ):
            run = mark(server, "clean")
            run.show("clean mark, embedded lake")
            sweep(server, run.record["mark_id"]).show("sweep, embedded lake")
        return 0
    with serve(scenario, trouble()) as server:
        first = first_runs(server, wanted, figures)
        if "second" in wanted:
            second_runs(server, first, figures)
        if server.s3.trouble.struck:
            print(f"  answers that were refused: {dict(server.s3.trouble.struck)}")
    for shape in options.shape or SHAPES[1:]:
        if "shapes" in wanted:
            times = skewed(scenario.objects.count, shape, first, trouble)
            figures.tell(f"{shape}, of the even case", times, _MOST_SKEWED, " ×")
    if figures.missed:
        print(f"missed: {', '.join(figures.missed)}")
    return 1 if options.full and figures.missed else 0


if __name__ == "__main__":
    sys.exit(main())
