"""A what-if beside a mark of the same lake, in turns, each as a process of its own: what the answer for all days costs.

    python benchmarks/bench_what_if.py                     1M objects, 2.5M range entries
    python benchmarks/bench_what_if.py --objects 100000    fewer

The lake is that of bench_collector.py. The answer is checked: what the present rules and each number of days free is told by
the lake's commits, without the product's code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from scenario import REPOSITORY, Scenario
from scenario_server import ScenarioServer, serve
from watched import Watched, watch

_OBJECTS = 1_000_000
_AT_MOST_TIMES = 1.5
_TURNS = 2


def run(server: ScenarioServer, *words: str) -> tuple[Watched, dict[str, Any]]:
    """One command on the lake as it was at first."""
    server.reset()
    command = [sys.executable, "-m", "lakesweep", *words, "--output", "json", "--no-progress"]
    seen = watch(command, os.environ | server.environment)
    if seen.status:
        raise SystemExit(f"{' '.join(words)} ended with status {seen.status}:\n{seen.err}")
    return seen, json.loads(seen.out)


def check(scenario: Scenario, answer: dict[str, Any]) -> None:
    """Refuse an answer that is not that of the lake."""
    points = {f"{point['days']} days": (point["days"], point) for point in answer["curve"]}
    points["the present rules"] = (None, answer["rules"][0])
    for what, (days, found) in points.items():
        rules = None if days is None else lambda _, days=days: days
        expired = scenario.expected(scenario.first, days=rules).expired
        size = int(scenario.objects.sizes(expired).sum())
        if (found["objects"], found["bytes"]) != (len(expired), size):
            raise SystemExit(f"{what} free {found}, and not the {len(expired)} that have expired")
    if answer["unreferenced"]["objects"] != len(scenario.by_role().unreferenced):
        raise SystemExit(f"{answer['unreferenced']} are unreferenced, and not those that are")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="as without it")
    parser.add_argument("--objects", type=int, default=_OBJECTS, help="a multiple of 20,000")
    parser.add_argument("--turns", type=int, default=_TURNS, help="how often each runs")
    options = parser.parse_args()
    scenario = Scenario(options.objects)
    print(scenario)
    marks: list[Watched] = []
    answers: list[Watched] = []
    garbage = len(scenario.by_role().garbage)
    with serve(scenario, is_plain=True) as server:
        for _ in range(options.turns):
            mark, record = run(server, "mark", REPOSITORY, "--run", "clean")
            if record["objects"]["garbage"] != garbage:
                raise SystemExit(f"the mark found {record['objects']}")
            print(f"lakesweep mark:    {mark}")
            answer, found = run(server, "what-if", REPOSITORY)
            check(scenario, found)
            print(f"lakesweep what-if: {answer}")
            marks.append(mark)
            answers.append(answer)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    times = sum(a.seconds for a in answers) / sum(m.seconds for m in marks)
    cpu_times = sum(a.cpu_seconds for a in answers) / sum(m.cpu_seconds for m in marks)
    is_reached = times < _AT_MOST_TIMES
    print(
        f"{times:.2f}× the time of a mark (at most {_AT_MOST_TIMES:g}×; {cpu_times:.2f}× by CPU), load {load}: "
        f"{'ok' if is_reached else 'TOO SLOW'}"
    )
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
