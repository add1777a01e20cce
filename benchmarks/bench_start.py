"""What each part of the quick start (docs/design/012) buys of a small mark that does start Spark: on and off in turns.

    python benchmarks/bench_start.py                                      every part, ten rounds; half an hour
    python benchmarks/bench_start.py --parts "jvm ahead,workers ahead"    these alone
    python benchmarks/bench_start.py --scale 0.01 --master ""             a mark that turns out to be large for one process

Each round has one run with all parts and one without each of them, in an order that turns. A run is a process of its own on a
loopback server, timed from its start to its end, and only if its result is exact.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median

from scenario import REPOSITORY, Scenario
from scenario_check import check_mark
from scenario_server import ScenarioServer, serve
from watched import Watched, watch
from without_part import OF_DAEMON, OF_DRIVER, VARIABLE

_HERE = Path(__file__).parent
_ALL = "all parts"
_LEAST_SECONDS = 0.5  # a part that buys less is not worth its lines


def mark(server: ScenarioServer, part: str, master: str) -> Watched:
    """A mark that is exact, without the part."""
    server.reset()
    expected = server.expected()
    words = ["mark", REPOSITORY, "--run", "clean", "--output", "json", "--no-progress"]
    words += ["--master", master] if master else []
    paths = os.pathsep.join(filter(None, (str(_HERE), os.environ.get("PYTHONPATH"))))
    environment = os.environ | server.environment | {VARIABLE: part, "PYTHONPATH": paths}
    seen = watch([sys.executable, str(_HERE / "without_part.py"), *words], environment)
    if seen.status:
        raise SystemExit(f"without {part}: status {seen.status}\n{seen.err}")
    check_mark(server, expected, json.loads(seen.out)["mark_id"])
    return seen


def spread(seconds: list[float]) -> str:
    """The middle one of all, and both ends."""
    return f"{median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="nothing more than without it")
    parser.add_argument("--parts", default=",".join(OF_DRIVER | OF_DAEMON))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scale", type=float, default=0.001, help="0.001: 20,000 objects")
    parser.add_argument(
        "--master", default="local[*]", help='"": none named, small work in the driver'
    )
    options = parser.parse_args()
    turns = [_ALL, *options.parts.split(",")]
    if unknown := set(turns) - {_ALL} - set(OF_DRIVER | OF_DAEMON):
        parser.error(f"no such part: {', '.join(unknown)}")
    print(f"{os.cpu_count()} cores; pyspark {version('pyspark')}; load {os.getloadavg()[0]:.1f}")
    seen: dict[str, list[Watched]] = {part: [] for part in turns}
    scenario = Scenario.at_scale(options.scale)
    print(scenario, flush=True)
    with serve(scenario) as server:
        mark(server, _ALL, options.master)  # compiles what is not compiled, reads what is not read
        for number in range(options.rounds):
            start = number % len(turns)
            for part in turns[start:] + turns[:start]:
                seen[part].append(mark(server, part, options.master))
                print(f"{seen[part][-1].seconds:.2f} s: {part}", file=sys.stderr, flush=True)
    whole = seen.pop(_ALL)
    print(
        f"{_ALL}: {spread([run.seconds for run in whole])}, CPU {spread([run.cpu_seconds for run in whole])}"
    )
    for part, runs in seen.items():
        bought = [run.seconds - on.seconds for run, on in zip(runs, whole, strict=True)]
        cpu = [run.cpu_seconds - on.cpu_seconds for run, on in zip(runs, whole, strict=True)]
        verdict = "kept" if median(bought) >= _LEAST_SECONDS else "too little"
        print(
            f"without {part}: {spread([run.seconds for run in runs])}; it buys {median(bought):+.2f} s, "
            f"in {sum(b > 0 for b in bought)} of {len(bought)} rounds, and {median(cpu):+.2f} s of CPU: {verdict}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
