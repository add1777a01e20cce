"""Compiled code has bounds checks of its own; these runs show that no index is ever out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from lakesweep.formats.sstable import checksum

# Writes and reads a file, then tries damaged ones: whatever index leaves its array raises IndexError here.
SCRIPT = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", ".*Cannot cache compiled function")  # without optimisation
import random
import numpy as np
from lakesweep.errors import FormatError
from lakesweep.formats.entries import Entry
from lakesweep.formats.ranges import read_range_addresses, read_range_hashes, read_range_records
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.sstable.checksum import masked_crc32c
from lakesweep.formats.values import join_value
from lakesweep_testing.forged_tables import SET_TRAILER, ForgedTable, block_of, entry_of, snappy_literal

READERS = [
    lambda data: read_range_hashes(data, expected_count=None),
    lambda data: read_range_addresses(data, expected_count=None),
    lambda data: list(read_range_records(data)),
]
checked = np.frombuffer(b"123456789" * 3, np.uint8)
assert masked_crc32c(checked, 9, 9) == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
value = join_value(bytes(32), Entry("data/slice/object" * 3, None, 1, "e").encode())
records = [(b"path/%03d" % i, value) for i in range(40)]
[written] = write_ranges(records)
assert [reader(written.data) for reader in READERS][2] == records
assert written.id == "EXPECTED_ID"

def spoiled(number):
    def change(name, payload):
        noise = bytearray(payload)
        if name == ("index", "properties", "metaindex")[number % 3]:
            noise[random.randrange(len(noise))] = random.randrange(256)
        return bytes(noise)
    return change

random.seed(1)
refused = 0
block = block_of([entry_of(b"a" + SET_TRAILER, value), entry_of(b"b" + SET_TRAILER, value, shared=1)])
for number in range(ROUNDS):
    noise = bytearray(block if number % 2 else snappy_literal(block))
    for _ in range(random.randint(1, 4)):
        noise[random.randrange(len(noise))] = random.randrange(256)
    false_blocks = ForgedTable([bytes(noise)], 2, kind=1 - number % 2)
    false_structure = ForgedTable([block], 2, change_payload=spoiled(number))
    for data in (false_blocks.build(), false_structure.build()):
        for reader in READERS:
            try:
                reader(data)
            except FormatError:
                refused += 1
print("refused", refused)
"""


def expected_id() -> str:
    from lakesweep.formats.entries import Entry
    from lakesweep.formats.range_writer import write_ranges
    from lakesweep.formats.values import join_value

    value = join_value(bytes(32), Entry("data/slice/object" * 3, None, 1, "e").encode())
    [written] = write_ranges((b"path/%03d" % i, value) for i in range(40))
    return written.id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "rounds"),
    [
        ("NUMBA_DISABLE_JIT", 60),
        # Half a minute of compiling.
        pytest.param("NUMBA_BOUNDSCHECK", 2000, marks=pytest.mark.search),
    ],
)
@pytest.mark.timeout(300)
def test_no_index_leaves_its_array(variable: str, rounds: int) -> None:
    """Uncompiled, and compiled with numba's own checks, the same code gives the same bytes and only FormatError."""
    script = SCRIPT.replace("EXPECTED_ID", expected_id()).replace("ROUNDS", str(rounds))
    done = subprocess.run(
        [sys.executable, "-c", script],
        # No optimisation: what matters is the checks, and compiling takes most of the time.
        env={**os.environ, variable: "1", "NUMBA_OPT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused ")


def test_checksums_by_tables_and_by_the_processor_agree() -> None:
    """Machines without the instruction get the same sums."""
    words = np.frombuffer(b"123456789abcdefg", np.uint64)
    crc = np.uint64(0xFFFFFFFF)
    for word in words:
        crc = checksum._step_by_tables(crc, word)
    plain = int(crc) ^ 0xFFFFFFFF
    masked = ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert checksum.masked_crc32c(words.view(np.uint8), 0, 16) == masked
