"""Overwrites of staged objects: a lake that deletes what was dropped at once, beside one that a collector sweeps at the end.

The lakes are served by processes of their own (`lakesweep serve`), lie on SQLite and local files, and are written to
through the REST API without a pause, in turns. After each turn of the lake that deletes at once, its reviews are waited
for, so that they disturb its own writes and no others'. A third lake, which differs from the second in nothing, shows
what the machine itself makes of equal things. A turn's p99 is that of its writes; the medians of all turns are compared.
Reviews wait for a moment without writes, but not for ever: `--turns 2` makes turns so long that they go on beside writes.
The storage amplification is watched: objects in the store for each one that is live. Its curve goes into an SVG file.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lakesweep.lake.review_process import REVIEW_SECONDS
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import as_file
from real_lake import LAKESWEEP

_REPOSITORY = "bench"
_REPOSITORIES = "/api/v1/repositories"
_PATHS = 200
_BODY = b"x" * 1024
_GRACE_SECONDS = 1
_MOST_RATIO = 1.05
_LAST_DRAIN_SECONDS = 300
_KEY, _SECRET = "AKIABENCHHARDDELETE", "bench-hard-delete-secret"  # of lakes that live for minutes


@dataclass(slots=True)
class Side:
    """One of the two lakes, and what was seen of it."""

    name: str
    url: str
    folder: Path
    turns: list[list[float]] = field(default_factory=list)
    """Of each turn, the seconds of its writes."""
    amplification: list[tuple[float, float]] = field(default_factory=list)
    _http: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._http = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)

    def call(self, method: str, target: str, body: bytes = b"", kind: str = "") -> bytes:
        """One request of a user with a key."""
        token = b64encode(f"{_KEY}:{_SECRET}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": kind}
        self._http.request(method, target, body, headers)
        reply = self._http.getresponse()
        said = reply.read()
        if reply.status not in (http.client.OK, http.client.CREATED):
            raise RuntimeError(f"{method} {target} answered {reply.status}: {said[:300]!r}")
        return said

    def overwrite(self, number: int) -> list[float]:
        """One turn of so many writes, each to one of few paths; how long each took."""
        taken: list[float] = []
        self._http.close()  # the server may have, while others had their turns; the next call opens it again
        for at in range(number):
            path = f"path/{at % _PATHS:04}"
            target = f"{_REPOSITORIES}/{_REPOSITORY}/branches/main/objects?path={path}"
            began = time.perf_counter()
            self.call("POST", target, _BODY, "application/octet-stream")
            taken.append(time.perf_counter() - began)
        return taken

    def stored(self) -> int:
        """Objects that are in the store."""
        data = self.folder / _REPOSITORY / "data"
        return sum(len(files) for _, _, files in os.walk(data))

    def metrics(self) -> dict[str, float]:
        """What the server tells of itself, without labels."""
        lines = self.call("GET", "/metrics").decode().splitlines()
        told = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in told}


def main() -> int:
    """Run it, say what was seen, and fail when writes have become slower than is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="100,000 overwrites of each lake")
    parser.add_argument("--overwrites", type=int, default=20_000, help="of each lake")
    parser.add_argument(
        "--turns", type=int, default=20, help="of each lake, of equally many writes"
    )
    parser.add_argument("--folder", type=Path, help="where the lakes lie")
    parser.add_argument("--svg", type=Path, default=Path("build/hard_delete.svg"))
    options = parser.parse_args()
    number = 100_000 if options.full else options.overwrites
    with tempfile.TemporaryDirectory(prefix="bench-hard-delete-", dir=options.folder) as folder:
        return _run(Path(folder), number, options.turns, options.svg)


def _run(folder: Path, number: int, turns: int, svg: Path) -> int:
    with ExitStack() as stack:
        off = stack.enter_context(_served("swept at the end", folder / "off"))
        equal = stack.enter_context(_served("swept at the end, too", folder / "equal"))
        grace = ("--delete-grace", f"{_GRACE_SECONDS}s")
        on = stack.enter_context(_served("deleted at once", folder / "on", "--hard-delete", *grace))
        for turn in range(turns):
            for side in (off, on, equal) if turn % 2 else (equal, on, off):
                side.turns.append(side.overwrite(number // turns))
                written = (turn + 1) * (number // turns)
                side.amplification.append((written, side.stored() / _PATHS))
                if side is on:
                    drained = _drain(on)
        # The process that reviews tells the server's of its last one.
        time.sleep(2 * REVIEW_SECONDS)
        told = on.metrics()
        swept = _sweep(off)
    off.amplification.append((number, off.stored() / _PATHS))
    on.amplification.append((number, on.stored() / _PATHS))
    _draw(svg, on, off)
    gone = told["lakesweep_lake_hard_deleted_objects_total"]
    latency = told["lakesweep_lake_hard_delete_seconds_sum"] / max(gone, 1)
    sys.stdout.write(
        f"{number:,} overwrites of {_PATHS} paths in each lake, in {turns} turns\n"
        f"a write, deleted at once / swept at the end: {_ratios(on, off)}\n"
        f"the same of two lakes that are both swept at the end: {_ratios(equal, off)}\n"
        f"amplification, deleted at once: most {_most(on):.1f}, at the end {on.amplification[-1][1]:.2f};"
        f" {gone:,.0f} objects gone {latency:.1f} s after their last reference (grace"
        f" {_GRACE_SECONDS} s), the last {drained:.1f} s after the last write\n"
        f"amplification, swept at the end: most {_most(off):.1f}, at the end {off.amplification[-1][1]:.2f};"
        f" the run took {swept:.1f} s\n"
        f"drawn in {svg}\n"
    )
    return 0 if _at(on, 99) <= _MOST_RATIO * _at(off, 99) else 1


@contextmanager
def _served(name: str, folder: Path, *options: str) -> Iterator[Side]:
    """A lake in a process of its own, with what all later writes write over."""
    keys = {"LAKESWEEP_SERVE_ACCESS_KEY_ID": _KEY, "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": _SECRET}
    words = ["serve", "--data", str(folder), "--port", "0", "--no-ui", *options]
    process = subprocess.Popen(
        [*LAKESWEEP, *words], env=os.environ | keys, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        side = Side(name, said[said.index("http://") :].split()[0], folder)
        place = f'{{"name": "{_REPOSITORY}", "storage_namespace": "local://{_REPOSITORY}"}}'
        side.call("POST", _REPOSITORIES, place.encode(), "application/json")
        side.overwrite(_PATHS)
        yield side
    finally:
        process.terminate()
        process.wait()


def _drain(side: Side) -> float:
    """Wait for the reviews of what was written last; how long that took."""
    began = time.perf_counter()
    while side.stored() > _PATHS:
        if time.perf_counter() - began > _LAST_DRAIN_SECONDS:
            raise RuntimeError("the reviewer did not keep up")
        time.sleep(0.1)
    return time.perf_counter() - began


def _sweep(side: Side) -> float:
    """A collection as users run it, with an age that lets everything go; how long that took."""
    time.sleep(2)
    keys = {
        "LAKECTL_SERVER_ENDPOINT_URL": side.url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": _KEY,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": _SECRET,
    }
    words = [
        "gc",
        _REPOSITORY,
        "--namespace-root",
        str(side.folder),
        "--min-age",
        "1s",
        "--unsafe-min-age",
        _REPOSITORY,
    ]
    words += ["--max-delete-share", "100", "--no-progress"]
    began = time.perf_counter()
    subprocess.run(
        [*LAKESWEEP, *words], env=os.environ | keys, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


def _ratios(one: Side, other: Side) -> str:
    """How much longer writes of the one take."""
    told = (
        f"{name} {_at(one, share) / _at(other, share):.3f} ({_at(one, share) * 1e3:.2f} and {_at(other, share) * 1e3:.2f} ms)"
        for name, share in (("median", 50), ("p90", 90), ("p99", 99))
    )
    return ", ".join(told)


def _at(side: Side, share: int) -> float:
    """The median over the turns of what so many of a hundred writes stayed below."""
    of_turns = [statistics.quantiles(seconds, n=100)[share - 1] for seconds in side.turns]
    return statistics.median(of_turns)


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
