"""Run the jitted code once, so that no test or demo pays for compiling it, and see that there is a Java."""

from __future__ import annotations

import sys
import time

import pyarrow as pa

from lakesweep.errors import LakesweepError
from lakesweep.formats.hashing import hash_address, hash_addresses
from lakesweep.java import find_java_home


def main() -> int:
    try:
        home = find_java_home()
    except LakesweepError as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return problem.exit_status
    began = time.monotonic()
    compile_hashing()
    seconds = time.monotonic() - began
    print(f"setup: Java is {home}; jitted code ready after {seconds:.0f} s", file=sys.stderr)
    return 0


def compile_hashing() -> None:
    address = "data/gmkslqa/cc2b4u4"
    assert hash_addresses(pa.array([address]))[0] == hash_address(address)


if __name__ == "__main__":
    sys.exit(main())
