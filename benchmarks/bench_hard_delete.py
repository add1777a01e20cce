"""Overwrites of staged objects: a lake that deletes what was dropped at once, beside one that a collector sweeps at the end.

Both lakes lie on SQLite and local files and are written to in turns, so that whatever else the machine does meets both.
Measured are the times of single writes (as a ratio of the two, turn by turn) and the storage amplification: objects in
the store for each one that is live. The curve of both goes into an SVG file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.request import SweepRequest
from lakesweep.lake.lake import Lake
from lakesweep.lake.server import open_lake, reviewing
from lakesweep.lake.values import LakeSettings
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import as_file
from lakesweep_testing.embedded import EmbeddedLake

_REPOSITORY = "bench"
_TURNS = 40
_PATHS = 200
_BODY = b"x" * 1024
_GRACE = timedelta(seconds=1)
_MOST_RATIO = 1.05
_LAST_DRAIN_SECONDS = 120


@dataclass(slots=True)
class Side:
    """One of the two lakes, and what was seen of it."""

    name: str
    lake: Lake
    folder: Path
    seconds: list[list[float]] = field(default_factory=list)
    """Of each write, turn by turn."""
    amplification: list[tuple[float, float]] = field(default_factory=list)

    def overwrite(self, number: int) -> None:
        """One turn of so many writes, each to one of few paths."""
        repository = self.lake.writable(_REPOSITORY)
        taken: list[float] = []
        for at in range(number):
            began = time.perf_counter()
            self.lake.objects.upload(repository, "main", f"path/{at % _PATHS:04}", [_BODY])
            taken.append(time.perf_counter() - began)
        self.seconds.append(taken)

    def stored(self) -> int:
        """Objects that are in the store."""
        data = self.folder / _REPOSITORY / "data"
        return sum(len(files) for _, _, files in os.walk(data))


def main() -> int:
    """Run it, say what was seen, and fail when writes have become slower than is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="100,000 overwrites of each lake")
    parser.add_argument("--overwrites", type=int, default=8_000, help="of each lake")
    parser.add_argument("--svg", type=Path, default=Path("build/hard_delete.svg"))
    options = parser.parse_args()
    number = 100_000 if options.full else options.overwrites
    with tempfile.TemporaryDirectory(prefix="bench-hard-delete-") as folder:
        return _run(Path(folder), number, options.svg)


def _run(folder: Path, number: int, svg: Path) -> int:
    with ExitStack() as stack:
        off = _side(stack, "swept at the end", folder / "off", hard_delete=False)
        on = _side(stack, "deleted at once", folder / "on", hard_delete=True)
        stack.enter_context(reviewing(on.lake))
        for turn in range(_TURNS):
            for side in (off, on) if turn % 2 else (on, off):
                side.overwrite(number // _TURNS)
            for side in (off, on):
                written = (turn + 1) * (number // _TURNS)
                side.amplification.append((written, side.stored() / _PATHS))
        drained = _drain(on)
        deleted = on.lake.reviewer.counts
    swept = _sweep(off)
    off.amplification.append((number, off.stored() / _PATHS))
    on.amplification.append((number, on.stored() / _PATHS))
    _draw(svg, on, off)
    ratios = {share: _ratio(on, off, share) for share in (50, 99)}
    mean_latency = deleted.latency_seconds / max(deleted.deleted_objects, 1)
    sys.stdout.write(
        f"{number:,} overwrites of {_PATHS} paths in each lake, in {_TURNS} turns\n"
        f"a write, deleted at once / swept at the end: median {ratios[50]:.3f}, p99 {ratios[99]:.3f}"
        f" (median over turns; p99 off {_percentile(off, 99) * 1e3:.1f} ms)\n"
        f"amplification, deleted at once: most {_most(on):.1f}, at the end {on.amplification[-1][1]:.2f};"
        f" {deleted.deleted_objects:,} objects gone {mean_latency:.1f} s after their last reference (grace"
        f" {_GRACE.total_seconds():.0f} s), the last {drained:.1f} s after the last write\n"
        f"amplification, swept at the end: most {_most(off):.1f}, at the end {off.amplification[-1][1]:.2f};"
        f" the run took {swept:.1f} s\n"
        f"drawn in {svg}\n"
    )
    return 0 if ratios[99] <= _MOST_RATIO else 1


def _side(stack: ExitStack, name: str, folder: Path, *, hard_delete: bool) -> Side:
    settings = LakeSettings(folder, hard_delete=hard_delete, delete_grace=_GRACE)
    lake = stack.enter_context(closing(open_lake(settings)))
    lake.repositories.create(_REPOSITORY, f"local://{_REPOSITORY}")
    side = Side(name, lake, folder)
    side.overwrite(_PATHS)  # what all later writes write over
    side.seconds.clear()
    return side


def _drain(side: Side) -> float:
    """Wait for the reviews of what was written last; how long that took."""
    began = time.perf_counter()
    repository = side.lake.writable(_REPOSITORY)
    while side.lake.delete_queue.length_and_oldest(repository)[0]:
        if time.perf_counter() - began > _LAST_DRAIN_SECONDS:
            raise RuntimeError("the reviewer did not keep up")
        time.sleep(0.1)
    return time.perf_counter() - began


def _sweep(side: Side) -> float:
    """Mark and sweep in this process, the objects being old enough; how long that took."""
    now = datetime.now(UTC)
    old = (now - timedelta(days=3)).timestamp()
    for path in (side.folder / _REPOSITORY / "data").rglob("*"):
        os.utime(path, (old, old))
    with EmbeddedLake(side.folder, LakeSettings(side.folder)) as served:
        served.clock.now = now
        began = time.perf_counter()
        marked = served.mark(_REPOSITORY, MarkRequest())
        served.sweep(_REPOSITORY, marked.mark_id, SweepRequest(max_delete_share=100))
        return time.perf_counter() - began


def _ratio(on: Side, off: Side, share: int) -> float:
    """How much longer writes take: the median over turns of the ratio of percentiles."""
    pairs = zip(on.seconds, off.seconds, strict=True)
    return statistics.median(_at(a, share) / _at(b, share) for a, b in pairs)


def _percentile(side: Side, share: int) -> float:
    return _at([second for turn in side.seconds for second in turn], share)


def _at(seconds: list[float], share: int) -> float:
    return statistics.quantiles(seconds, n=100)[share - 1]


def _most(side: Side) -> float:
    return max(height for _, height in side.amplification)


def _draw(svg: Path, *sides: Side) -> None:
    lines = [
        Curve(side.name, [(0.0, 1.0), *side.amplification], paint)
        for side, paint in zip(sides, ("live", "garbage"), strict=True)
    ]
    told = "; ".join(f"{side.name}: at most {_most(side):.1f}" for side in sides)
    drawing = curves(
        "Objects in the store for each live one",
        told,
        lines,
        x_name="overwrites",
        show_x=lambda x: f"{x:,.0f}",
        show_y=lambda y: f"{y:g}",
    )
    svg.parent.mkdir(parents=True, exist_ok=True)
    svg.write_text(as_file([drawing]), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
