"""What a clean mark will cost at sizes that nobody measured here: fitted to measured points, checked on one held back.

The cost of a mark is a start and something for each object, because entries, commits and requests grow with the objects in
the seed's shape. Cores share what is for objects, as well as they were seen to. Whatever the cores, a bucket answers only
so many requests a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lake_objects import ENTRIES_PER_RANGE
from limits import Limits

CORES_PER_EXECUTOR = 4
_CORES_HERE = 2
_KEYS_PER_PAGE = 1000
_KEYS_PER_DELETE = 1000
# What Amazon documents for one prefix, and its list prices for a thousand requests; deletes are free.
_GETS_PER_SECOND = 5_500
_DELETES_PER_SECOND = 3_500
_DOLLARS_PER_LIST, _DOLLARS_PER_GET = 0.005 / 1000, 0.0004 / 1000
_SIZES = (1_000_000_000, 100_000_000_000)
_EXECUTORS = (10, 100, 1_000)


@dataclass(frozen=True, slots=True)
class Point:
    """One clean mark that was measured, and the sweep of what it found, where that was measured, too."""

    series: str
    x: float
    objects: int
    entries: int
    commits: int
    garbage: int
    seconds: float
    cpu_seconds: float
    mib: int
    requests: int
    load_before: float
    phases: Mapping[str, float] = field(default_factory=dict)
    sweep_seconds: float = 0.0
    sweep_cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A start and so much for each."""

    start: float
    each: float

    def at(self, number: float) -> float:
        """What so many cost."""
        return self.start + self.each * number


@dataclass(frozen=True, slots=True)
class Power:
    """A start and a power: `start + factor * x ** exponent`."""

    start: float
    factor: float
    exponent: float


def fit_line(points: Iterable[tuple[float, float]]) -> Line:
    """The line whose relative errors are least; neither of its numbers is below zero."""
    power = _fit([*points], 1.0)[1]
    return Line(power.start, power.factor)


def fit_power(points: Iterable[tuple[float, float]]) -> Power:
    """The exponent between a half and two at which the fit is best."""
    given = [*points]
    return min((_fit(given, p) for p in np.arange(0.5, 2.005, 0.01)), key=lambda fit: fit[0])[1]


def _fit(points: Sequence[tuple[float, float]], exponent: float) -> tuple[float, Power]:
    """The sum of squared relative errors of the best fit with this exponent, and the fit."""
    x, y = np.array(points, float).T
    rows = np.stack([1 / y, x**exponent / y], axis=1)
    start, factor = np.linalg.lstsq(rows, np.ones(len(y)), rcond=None)[0]
    if start < 0:
        start, factor = 0.0, float((rows[:, 1]).sum() / (rows[:, 1] ** 2).sum())
    errors = rows @ np.array([start, factor]) - 1
    return float((errors**2).sum()), Power(float(start), float(factor), float(exponent))


@dataclass(frozen=True, slots=True)
class Model:
    """What marks and sweeps cost by their numbers of objects."""

    cpu: Line
    sweep_cpu: Line
    requests: Line
    efficiency: float
    """How much of a second core was of use."""

    @classmethod
    def of(cls, points: Sequence[Point], efficiency: float) -> Model:
        """Fitted to marks of several sizes."""
        return cls(
            fit_line((p.objects, p.cpu_seconds) for p in points),
            fit_line((p.garbage, p.sweep_cpu_seconds) for p in points),
            fit_line((p.objects, p.requests) for p in points),
            efficiency,
        )

    def mark_seconds(self, objects: float, cores: float) -> tuple[float, float]:
        """As the cores bound it, and as the bucket's requests do."""
        by_cores = self.cpu.start + self.cpu.each * objects / (cores * self.efficiency)
        return by_cores, self.requests.at(objects) / _GETS_PER_SECOND

    def sweep_seconds(self, garbage: float, cores: float) -> tuple[float, float]:
        """As the cores bound it, and as the bucket's deletes do."""
        by_cores = self.sweep_cpu.start + self.sweep_cpu.each * garbage / (cores * self.efficiency)
        return by_cores, garbage / _KEYS_PER_DELETE / _DELETES_PER_SECOND

    def dollars(self, objects: float) -> float:
        """Of a mark's requests."""
        pages = objects / _KEYS_PER_PAGE
        gets = max(self.requests.at(objects) - pages, 0.0)
        return pages * _DOLLARS_PER_LIST + gets * _DOLLARS_PER_GET


def efficiency_of(points: Sequence[Point]) -> float:
    """Of the marks on one core and on several: how much the others were of use; 1 where that was not measured."""
    by_cores = {point.x: point.seconds for point in points}
    most = max(by_cores, default=1.0)
    return min(1.0, by_cores[1.0] / by_cores[most] / most) if 1.0 in by_cores and most > 1 else 1.0


def bounds(point: Point, limits: Limits) -> dict[str, tuple[str, float]]:
    """Of phases with a limit: what their work is, and how long both cores would take if they did nothing else."""
    files = point.entries / ENTRIES_PER_RANGE
    seconds = {
        "ranges": ("a file of each commit read", point.commits / limits.files_read),
        "list": ("keys listed", point.objects / limits.keys_listed),
        "judge": (
            "ranges read, unpacked and hashed, hashes dealt to partitions",
            files / limits.files_read
            + point.entries / limits.entries_hashed
            + (point.entries + point.objects) / limits.hashes_dealt,
        ),
        "sweep": ("keys deleted", point.garbage / limits.keys_deleted),
    }
    return {phase: (what, each / _CORES_HERE) for phase, (what, each) in seconds.items()}


def _phases(point: Point, limits: Limits | None) -> list[str]:
    """Where the time goes, beside what the cores can do at best."""
    bound = {} if limits is None else bounds(point, limits)
    rows = []
    for phase, took in (point.phases | {"sweep": point.sweep_seconds}).items():
        what, least = bound.get(phase, ("", 0.0))
        rows.append([phase, f"{took:.1f}", what, f"{least:.1f}" if least else ""])
    return [
        f"Wall seconds of the phases of the mark of {point.objects:,} objects and of the whole sweep, beside what two cores would take",
        "for the work in them that has a limit of its own, if they did nothing else. The benchmark's server works on the same cores.",
        "",
        *_table(["phase", "took, s", "its work", "at its limit, s"], rows),
        "",
        *(_limits(limits) if limits is not None else ()),
    ]


def _limits(limits: Limits) -> list[str]:
    return [
        f"Limits of one core (`benchmarks/limits.py`): {limits.keys_listed:,.0f} keys listed a second, {limits.files_read:,.0f} files of 31 kB read,",
        f"{limits.entries_hashed:,.0f} entries unpacked and hashed ({limits.bytes_unpacked / 1e6:,.0f} MB of snappy), {limits.hashes_dealt:,.0f} hashes dealt to partitions,",
        f"{limits.keys_deleted:,.0f} keys deleted.",
        "",
    ]


def page(
    points: Sequence[Point],
    by_series: Mapping[str, Sequence[Point]],
    limits: Limits | None = None,
) -> str:
    """docs/explanation/scale.md."""
    efficiency = efficiency_of(by_series.get("cores", ()))
    model, power = (
        Model.of(points, efficiency),
        fit_power((p.objects, p.cpu_seconds) for p in points),
    )
    held_back = points[-1]
    blind = Model.of(points[:-1], efficiency)
    checks = [
        ("CPU of the mark, s", blind.cpu.at(held_back.objects), held_back.cpu_seconds),
        ("CPU of the sweep, s", blind.sweep_cpu.at(held_back.garbage), held_back.sweep_cpu_seconds),
        ("requests", blind.requests.at(held_back.objects), held_back.requests),
    ]
    return "\n".join(
        [
            "# How the cost of a collection grows",
            "",
            "Written by `make bench-plots` from `scale.json`. Each point is a clean mark of the lake that `benchmarks/scenario.py`",
            "makes, in a process of its own on the two cores of this machine, its server on them, too; it counts only if its result is",
            "exactly what the lake has by construction. Objects, entries, commits, branches and garbage grow together.",
            "",
            *_table(
                [
                    "objects",
                    "entries",
                    "commits",
                    "mark, s",
                    "CPU, s",
                    "MiB",
                    "requests",
                    "garbage",
                    "sweep, s",
                    "load before",
                ],
                [
                    [
                        f"{p.objects:,}",
                        f"{p.entries:,}",
                        f"{p.commits:,}",
                        f"{p.seconds:.1f}",
                        f"{p.cpu_seconds:.1f}",
                        f"{p.mib:,}",
                        f"{p.requests:,}",
                        f"{p.garbage:,}",
                        f"{p.sweep_seconds:.1f}",
                        f"{p.load_before:.1f}",
                    ]
                    for p in points
                ],
            ),
            "",
            f"CPU = {power.start:.1f} s + a part that grows with objects to the power of **{power.exponent:.2f}** (at most 1.05 is asked).",
            "",
            "![Seconds, CPU and memory over objects, entries, commits, slices, share changed, latency and cores](scale.svg)",
            "",
            *_entries(by_series.get("entries", ())),
            *_changed(by_series.get("changed", ())),
            *_waiting(by_series.get("latency", ())),
            "## Where the time goes",
            "",
            *_phases(held_back, limits),
            "## What it would cost elsewhere",
            "",
            f"`benchmarks/model.py`: a start and so much for each object, shared by cores. Two of them were worth {2 * efficiency:.2f} here, at",
            "400,000 objects, where half of a mark is its start; every further one counts as little. Requests are answered at",
            f"{_GETS_PER_SECOND:,} a second for one prefix, as Amazon documents it; a bucket that has been in use may have many.",
            "Fitted to all points but the largest, it says of the largest:",
            "",
            *_table(
                ["what", "predicted", "measured", "off by"],
                [
                    [what, f"{said:,.1f}", f"{seen:,.1f}", f"{said / seen - 1:+.0%}"]
                    for what, said, seen in checks
                ],
            ),
            "",
            f"Predicted for lakes of the same shape, executors of {CORES_PER_EXECUTOR} cores like these, garbage being a twentieth (dollars are list prices of",
            "requests; deletes are free). **No such lake was measured.** Executors hold what their settings let them hold, whatever the size.",
            "",
            *_table(
                [
                    "objects",
                    "executors",
                    "mark, by cores",
                    "by requests to one prefix",
                    "sweep",
                    "requests of the mark, $",
                ],
                [
                    _predicted(model, objects, executors)
                    for objects in _SIZES
                    for executors in _EXECUTORS
                ],
            ),
            "",
        ]
    )


def _predicted(model: Model, objects: int, executors: int) -> list[str]:
    cores = executors * CORES_PER_EXECUTOR
    by_cores, by_requests = model.mark_seconds(objects, cores)
    swept = max(model.sweep_seconds(objects / 20, cores))
    return [
        f"{objects:,}",
        f"{executors:,}",
        _duration(by_cores),
        _duration(by_requests),
        _duration(swept),
        f"{model.dollars(objects):,.0f}",
    ]


def _entries(points: Sequence[Point]) -> list[str]:
    """How CPU grows with entries alone, where that was measured."""
    if len(points) < 3:
        return []
    power = fit_power((p.entries, p.cpu_seconds) for p in points)
    return [
        f"With {points[0].objects:,} objects and {points[0].entries:,} to {points[-1].entries:,} entries, CPU grows with entries to the power of",
        f"**{power.exponent:.2f}** from a start of {power.start:.1f} s.",
        "",
    ]


def _changed(points: Sequence[Point]) -> list[str]:
    """What an optimized run takes by the share that has changed, where that was measured."""
    if not points:
        return []
    told = ", ".join(f"{p.x:g} %, {p.garbage:,} newly garbage: {p.seconds:.1f} s" for p in points)
    return [
        f"An optimized mark of {points[0].objects:,} objects by the share of everything that has changed (of branches at least one): {told}.",
        "",
    ]


def _waiting(points: Sequence[Point]) -> list[str]:
    """What latency costs, where it was measured: how many requests wait for the one before them."""
    if len(points) < 2:
        return []
    near, far = points[0], points[-1]
    in_turn = (far.seconds - near.seconds) / (far.x - near.x) * 1000
    return [
        f"With {far.x:.0f} ms before each answer the mark of {far.objects:,} objects takes {far.seconds:.1f} s instead of {near.seconds:.1f}: of its",
        f"{far.requests:,} requests some {in_turn:,.0f} wait for one before them.",
        "",
    ]


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{seconds / 60:.1f} min"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
