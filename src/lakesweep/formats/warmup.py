"""Compiling the compiled parts ahead of time, so that no task waits for them."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.formats.entries import Entry
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.ranges import (
    open_range,
    read_range_addresses,
    read_range_hashes,
    write_ranges,
)
from lakesweep.formats.values import join_value

__all__ = ["warm_up"]


def warm_up() -> None:
    """Run every compiled function once. Some 20 seconds on a new machine, then a fraction of one: numba keeps the code."""
    entry = Entry("data/slice/object", None, 1, "e")
    [written] = write_ranges([(b"path", join_value(bytes(32), entry.encode()))])
    read_range_hashes(written.data, expected_count=1)
    read_range_addresses(written.data, expected_count=1)
    open_range(written.data).records()
    hash_addresses(pa.array([entry.address]))
