"""Run every benchmark in turn: `make bench`, or `make bench-full` for full sizes.

    python benchmarks/run.py                 all bench_*.py
    python benchmarks/run.py listing sstable those
    python benchmarks/run.py --full          at full size

Each is a program of its own and runs alone, so that none warms or slows another. One that ends with a status
other than 0 missed its figure (or failed), and so does this.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="without bench_ and .py; all if none"
    )
    parser.add_argument("--full", action="store_true", help="full sizes instead of minutes' ones")
    options = parser.parse_args()
    benchmarks = {
        path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))
    }
    unknown = [name for name in options.names if name not in benchmarks]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(benchmarks)})")
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    missed = []
    for name in options.names or benchmarks:
        print(f"\n== {name}", flush=True)
        words = [sys.executable, str(benchmarks[name]), *(["--full"] if options.full else [])]
        if subprocess.run(words, check=False).returncode:
            missed.append(name)
    if missed:
        print(f"\nmissed or failed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
