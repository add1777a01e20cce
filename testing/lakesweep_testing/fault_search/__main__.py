"""`python -m lakesweep_testing.fault_search --injections 10000 --seed 1 --json FILE`: exit status 1 if anything went wrong."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from pathlib import Path

from lakesweep_testing.fault_search.shares import search_quietly, shares
from lakesweep_testing.warmup import warm_up

_SHOWN = 200  # of wrong endings, in words


def main() -> int:
    """Search, print a line for each stage, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--injections", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="stages with this in their name")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--go-on", action="store_true", help="leave out the stages whose results the file has"
    )
    given = parser.parse_args()
    results = json.loads(given.json.read_text()) if given.go_on else []
    done = {(result["catalog"], result["run"]) for result in results}
    warm_up()  # once, and not in every process
    orders = [
        (catalog, run, share, given.seed)
        for catalog, run, share in shares(given.injections)
        if given.only in f"{catalog}: {run}" and (catalog, run) not in done
    ]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for result in pool.imap_unordered(search_quietly, orders):
            results.append(result)
            wrong = result["wrong"]
            assert isinstance(wrong, list)
            said = ", ".join(f"{name} {result[name]}" for name in ("right", "errors", "unseen"))
            sys.stdout.write(
                f"{result['catalog']}: {result['run']}: {result['injections']} of {result['possible']} injected, "
                f"{said}, wrong {len(wrong)}, losses {result['losses']}, {result['seconds']} s\n"
            )
            for one in wrong[:_SHOWN]:
                sys.stdout.write(f"  WRONG {one}\n")
            sys.stdout.flush()
            if given.json is not None:
                given.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
