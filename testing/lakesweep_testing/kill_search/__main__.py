"""`python -m lakesweep_testing.kill_search --json FILE`: exit status 1 if anything was not as it should be after a kill."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from pathlib import Path

from lakesweep_testing.kill_search.series import SERIES, kill_quietly
from lakesweep_testing.warmup import warm_up


def main() -> int:
    """Kill, print a line for each series, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the writes of each run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warm_up()
    orders = [(who, run, given.share, given.seed) for who, run in SERIES]
    results = []
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for result in pool.imap_unordered(kill_quietly, orders):
            results.append(result)
            sys.stdout.write(
                f"{result['who']}, {result['run']}: {result['survived']} of {result['kills']} kills survived "
                f"({result['writes']} writes), {result['seconds']} s\n"
            )
            wrong = result["wrong"]
            assert isinstance(wrong, list)
            for one in wrong:
                sys.stdout.write(f"  WRONG {one}\n")
            sys.stdout.flush()
            if given.json is not None:
                given.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
