"""How the cost of a collection grows: with objects, what holds them, cores, the server's distance (`make bench-plots`).

    python benchmarks/growth.py                             what the curves of docs/explanation/scale.md need
    python benchmarks/growth.py --scales 0.01,0.05 --at 0.02  some scales; the scale of the other curves

Every point is a clean mark of the scenario in a process of its own, or an optimized one after a share of everything has
changed, timed only if its result is exactly what the lake has by construction. Points are kept in
docs/explanation/scale.json, and one that is measured again replaces the old one; curves, fits and the model's table
(model.py) are made from all that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench_scale import Run, mark, sweep
from lake_objects import ENTRIES_PER_RANGE
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import Drawing, as_file
from limits import Limits, measured
from loopback_http import Trouble
from model import Point, fit_power, page
from scenario import Proportions, Scenario
from scenario_server import ScenarioServer, serve

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "explanation"
_SCALES = (0.01, 0.02, 0.03, 0.1, 0.2)
_AT = 0.02
_LATENCIES_MS = (0, 20, 50, 100)
_CORES = (1, 2)
_SLICES = (10, 40, 200, 1_000)
_TIMES_COMMITS = (1, 4, 16)
_TIMES_RANGES = (1, 4, 12, 24)
_CHANGED = (0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One curve: its series, what its x is, how it is written, and the word for what was run."""

    series: str
    x_name: str
    show_x: Callable[[float], str]
    run: str = "clean mark"
    has_power: bool = False  # whether CPU grows with x from a start on


_DRAWN = (
    _Drawn("objects", "objects", lambda x: f"{x / 1e6:g}M", has_power=True),
    _Drawn("entries", "entries of ranges", lambda x: f"{x / 1e6:g}M", has_power=True),
    _Drawn("commits", "commits", lambda x: f"{x:,.0f}"),
    _Drawn("slices", "slices", lambda x: f"{x:,.0f}"),
    _Drawn("changed", "percent changed", lambda x: f"{x:g}", run="optimized mark"),
    _Drawn("latency", "milliseconds before each answer", lambda x: f"{x:.0f}"),
    _Drawn("cores", "cores", lambda x: f"{x:.0f}"),
)


def main() -> int:
    """Measure what is asked for, and write the page from all points."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--scales", default=",".join(map(str, _SCALES)), help="of the seed's lake")
    parser.add_argument("--at", type=float, default=_AT, help="the scale of the other curves")
    every = ",".join(["limits", *(drawn.series for drawn in _DRAWN)])
    parser.add_argument("--only", default=every, help=f"some of {every}")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    kept = FOLDER / "scale.json"
    points = [Point(**fields) for fields in json.loads(kept.read_text())] if kept.exists() else []
    wanted = set() if options.page_only else set(options.only.split(","))
    scales = [float(scale) for scale in options.scales.split(",")]
    for point in _measured(wanted, scales, options.at):
        print(point, flush=True)
        points = [old for old in points if (old.series, old.x) != (point.series, point.x)]
        points = sorted([*points, point], key=lambda one: (one.series, one.x))
        kept.write_text(json.dumps([asdict(one) for one in points], indent=1) + "\n")
    kept_limits = FOLDER / "scale-limits.json"
    if "limits" in wanted:
        kept_limits.write_text(json.dumps(asdict(measured()), indent=1) + "\n")
    limits = Limits(**json.loads(kept_limits.read_text())) if kept_limits.exists() else None
    by_series = {
        drawn.series: [point for point in points if point.series == drawn.series]
        for drawn in _DRAWN
    }
    drawings = [
        _draw(drawn, by_series[drawn.series]) for drawn in _DRAWN if by_series[drawn.series]
    ]
    (FOLDER / "scale.svg").write_text(as_file([d for pair in drawings for d in pair]), "utf-8")
    (FOLDER / "scale.md").write_text(page(by_series["objects"], by_series, limits), "utf-8")
    return 0


def _measured(wanted: set[str], scales: list[float], at: float) -> Iterable[Point]:
    # Named, so that small lakes go to Spark as well: all points are of one engine.
    os.environ["LAKESWEEP_MASTER"] = "local[*]"
    for scale in scales if "objects" in wanted else ():
        with serve(Scenario.at_scale(scale)) as server:
            run = mark(server, "clean")
            point = _point("objects", server.scenario.objects.count, server, run)
            swept = sweep(server, run.record["mark_id"])
            yield replace(
                point,
                sweep_seconds=round(swept.seconds, 2),
                sweep_cpu_seconds=round(swept.seen.cpu_seconds, 2),
            )
    yield from _other_lakes(wanted, at)
    if wanted & {"latency", "cores"}:
        with serve(Scenario.at_scale(at), Trouble()) as server:
            for latency in _LATENCIES_MS if "latency" in wanted else ():
                server.reset()
                server.s3.trouble.latency_seconds = latency / 1000
                yield _point("latency", latency, server, mark(server, "clean"))
            server.s3.trouble.latency_seconds = 0
            for cores in _CORES if "cores" in wanted else ():
                server.reset()
                os.environ["LAKESWEEP_MASTER"] = f"local[{cores}]"
                yield _point("cores", cores, server, mark(server, "clean"))


def _other_lakes(wanted: set[str], at: float) -> Iterable[Point]:
    """Lakes of one size, and more or less of what holds their objects."""
    objects = Scenario.at_scale(at).objects.count
    for times in _TIMES_RANGES if "entries" in wanted else ():
        with serve(Scenario(objects, times=Proportions(ranges=times))) as server:
            entries = len(server.scenario.first.history.slots) * ENTRIES_PER_RANGE
            yield _point("entries", entries, server, mark(server, "clean"))
    for times in _TIMES_COMMITS if "commits" in wanted else ():
        with serve(Scenario(objects, times=Proportions(commits=times))) as server:
            commits = len(server.scenario.first.history.commits)
            yield _point("commits", commits, server, mark(server, "clean"))
    for slices in _SLICES if "slices" in wanted else ():
        with serve(Scenario(objects, slices=slices)) as server:
            yield _point("slices", slices, server, mark(server, "clean"))
    for share in _CHANGED if "changed" in wanted else ():
        with serve(Scenario(objects, changed=share)) as server:
            sweep(server, mark(server, "clean").record["mark_id"])
            server.change()
            yield _point("changed", 100 * share, server, mark(server, "optimized"))


def _point(series: str, x: float, server: ScenarioServer, run: Run) -> Point:
    scenario, history = server.scenario, server.scenario.first.history
    phases: Mapping[str, float] = {p["name"]: p["seconds"] for p in run.record["phases"]}
    return Point(
        series=series,
        x=x,
        objects=scenario.objects.count,
        entries=len(history.slots) * ENTRIES_PER_RANGE,
        commits=len(history.commits),
        garbage=len(server.expected().garbage),
        seconds=round(run.seconds, 2),
        cpu_seconds=round(run.seen.cpu_seconds, 2),
        mib=round(run.seen.peak_shared_once_mib),
        requests=run.load.requests,
        load_before=round(run.seen.load, 2),
        phases={name: round(seconds, 2) for name, seconds in phases.items()},
    )


def _draw(drawn: _Drawn, points: list[Point]) -> list[Drawing]:
    """Seconds and memory of a series over its x."""
    told = f"{drawn.run}; {len(points)} points"
    if drawn.has_power and len(points) > 2:
        power = fit_power([(p.x, p.cpu_seconds) for p in points])
        told += f"; CPU grows with {drawn.x_name} to the power of {power.exponent:.2f}"
    lines = [
        Curve("seconds", [(p.x, p.seconds) for p in points], "live"),
        Curve("seconds of CPU", [(p.x, p.cpu_seconds) for p in points], "garbage"),
    ]
    memory = [Curve("MiB of all processes", [(p.x, p.mib) for p in points], "live")]
    return [
        curves(
            f"{what} over {drawn.x_name}",
            told,
            several,
            x_name=drawn.x_name,
            show_x=drawn.show_x,
            show_y=lambda y: f"{y:g}",
            x_ticks=[point.x for point in points],
        )
        for what, several in ((f"Time of a {drawn.run}", lines), ("Memory", memory))
    ]


if __name__ == "__main__":
    sys.exit(main())
