"""A what-if beside a mark of the same lake, in turns, each as a process of its own: what the answer for all days costs.

    python benchmarks/bench_what_if.py                     1M objects, 3M range entries
    python benchmarks/bench_what_if.py --objects 100000    fewer

The lake is that of bench_collector.py. The answer is checked: what the present rules and 30 days free is exactly the garbage
that the lake has by construction, and what other numbers of days free is told by its commits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from bench_collector import describe
from scenario import REPOSITORY, RETENTION_DAYS, Scenario, size_of
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
    days = {point["days"]: point for point in answer["curve"]}
    at_rules = days[max(d for d in days if d <= RETENTION_DAYS)]
    for what, found in (("30 days", at_rules), ("the present rules", answer["rules"][0])):
        size = int(size_of(scenario.expired).sum())
        if (found["objects"], found["bytes"]) != (len(scenario.expired), size):
            raise SystemExit(f"{what} free {found}, and not what has expired")
    if answer["unreferenced"]["objects"] != len(scenario.unreferenced):
        raise SystemExit(f"{answer['unreferenced']} are unreferenced, and not those that are")
    if days[0]["objects"] != len(scenario.expired) + len(scenario.superseded):
        raise SystemExit(f"0 days free {days[0]}, and not all that the head does not read")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="as without it")
    parser.add_argument("--objects", type=int, default=_OBJECTS, help="a multiple of 100,000")
    parser.add_argument("--turns", type=int, default=_TURNS, help="how often each runs")
    options = parser.parse_args()
    scenario = Scenario(options.objects)
    describe(scenario)
    marks: list[Watched] = []
    answers: list[Watched] = []
    with serve(scenario) as server:
        for _ in range(options.turns):
            mark, record = run(server, "mark", REPOSITORY, "--run", "clean")
            if record["objects"]["garbage"] != len(scenario.garbage):
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
