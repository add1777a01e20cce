"""Overwrites of staged objects: a lake that deletes what was dropped at once, beside one that a collector sweeps at the end.

The lakes are served by processes of their own (`lakesweep serve`), lie on SQLite and local files, and are written to
through the REST API without a pause, in turns. After each turn of the lake that deletes at once, its reviews are waited
for, so that they disturb its own writes and no others'. A third lake, which differs from the second in nothing, shows
what the machine itself makes of equal things. A turn's p99 is that of its writes; the medians of all turns are compared.
A server or a folder may have luck that lasts as long as it does (equal lakes were seen 1.3 times apart), so there are rounds,
each with lakes of its own that were started in another order, and the median of their ratios counts.
Reviews wait for a moment without writes, but not for ever: `--turns 2` makes turns so long that they go on beside writes.
The storage amplification is watched: objects in the store for each one that is live. Its curve in the first round goes into
an SVG file.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from lakesweep.lake.review_process import REVIEW_SECONDS
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import as_file
from real_lake import LAKESWEEP

Thing = TypeVar("Thing")
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


@dataclass(frozen=True, slots=True)
class Round:
    """Three lakes that were written to in turns."""

    off: Side
    on: Side
    equal: Side


def main() -> int:
    """Run it, say what was seen, and fail when writes have become slower than is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="100,000 overwrites of each kind of lake"
    )
    parser.add_argument("--overwrites", type=int, default=20_000, help="of each kind of lake")
    parser.add_argument("--rounds", type=int, default=5, help="each with lakes of its own")
    parser.add_argument("--turns", type=int, default=4, help="of each lake in a round")
    parser.add_argument("--folder", type=Path, help="where the lakes lie")
    parser.add_argument("--svg", type=Path, default=Path("build/hard_delete.svg"))
    options = parser.parse_args()
    number = 100_000 if options.full else options.overwrites
    rounds: list[Round] = []
    for first in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="bench-hard-delete-", dir=options.folder) as folder:
            svg = options.svg if not first else None
            each = number // options.rounds
            rounds.append(_round(Path(folder), each, options.turns, first, svg))
    ratio = _told("deleted at once / swept at the end", [(one.on, one.off) for one in rounds])
    _told("two lakes that are both swept at the end", [(one.equal, one.off) for one in rounds])
    return 0 if ratio <= _MOST_RATIO else 1


def _told(what: str, pairs: Sequence[tuple[Side, Side]]) -> float:
    """Print how much longer a write of the one takes; the ratio at p99."""
    of_rounds = {q: [_at(one, q) / _at(other, q) for one, other in pairs] for q in (50, 90, 99)}
    middle = {share: statistics.median(ratios) for share, ratios in of_rounds.items()}
    told = ", ".join(f"p{share} {ratio:.3f}" for share, ratio in middle.items())
    last = of_rounds[99]
    print(f"= a write, {what}: {told} (p99 of rounds {min(last):.2f} to {max(last):.2f})")
    return middle[99]


def _round(folder: Path, number: int, turns: int, first: int, svg: Path | None) -> Round:
    with ExitStack() as stack:
        grace = ("--delete-grace", f"{_GRACE_SECONDS}s")
        kinds = [("swept at the end", ()), ("deleted at once", ("--hard-delete", *grace))]
        kinds.append(("swept at the end, too", ()))
        served = {
            name: stack.enter_context(_served(name, folder / str(place), *options))
            for place, (name, options) in enumerate(_turned(kinds, first))
        }
        off, on, equal = (served[name] for name, _ in kinds)
        for turn in range(turns):
            for side in _turned(list(served.values()), turn):
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
    if svg is not None:
        _draw(svg, on, off)
    gone = told["lakesweep_lake_hard_deleted_objects_total"]
    latency = told["lakesweep_lake_hard_delete_seconds_sum"] / max(gone, 1)
    sys.stdout.write(
        f"round {first + 1}: {number:,} overwrites of {_PATHS} paths in each lake, in {turns} turns\n"
        f"a write, deleted at once / swept at the end: {_ratios(on, off)}\n"
        f"the same of two lakes that are both swept at the end: {_ratios(equal, off)}\n"
        f"amplification, deleted at once: most {_most(on):.1f}, at the end {on.amplification[-1][1]:.2f};"
        f" {gone:,.0f} objects gone {latency:.1f} s after their last reference (grace"
        f" {_GRACE_SECONDS} s), the last {drained:.1f} s after the last write\n"
        f"amplification, swept at the end: most {_most(off):.1f}, at the end {off.amplification[-1][1]:.2f};"
        f" the run took {swept:.1f} s\n"
    )
    return Round(off, on, equal)


def _turned(things: list[Thing], first: int) -> list[Thing]:
    """All things, beginning with another one each time."""
    first %= len(things)
    return things[first:] + things[:first]


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
