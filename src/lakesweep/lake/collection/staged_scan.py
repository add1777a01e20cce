"""From staged values to columns of addresses and times, compiled: millions of them pass in seconds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import FormatError
from lakesweep.formats.entry_scan import (
    ADDRESS_SIZE,
    ADDRESS_START,
    ADDRESS_TYPE,
    FOUND_FIELDS,
    RELATIVE,
    SECONDS,
    read_value,
)
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, copy_bytes
from lakesweep.lake.addresses.inside import staged_address
from lakesweep.lake.context import LakeContext
from lakesweep.lake.values import Repository

_SCAN_ROWS = 20_000
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScannedValues:
    """Relative addresses with their entries' times in seconds, and the positions of values with other ones."""

    addresses: pa.StringArray
    seconds: Ints
    other_positions: list[int]


def scan_staged_values(values: Sequence[bytes]) -> ScannedValues:
    """Read every value; tombstones are passed over. Raises FormatError for one that can't be read."""
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.zeros(len(values) + 1, np.int32)
    addresses = np.empty(data.size, np.uint8)
    seconds = np.empty(len(values), np.int64)
    other_positions = np.empty(len(values), np.int64)
    found = np.empty(FOUND_FIELDS, np.int64)
    relative, others, faulty = _scan(
        data, ends, found, offsets, addresses, seconds, other_positions
    )
    if faulty >= 0:
        raise FormatError(
            f"a staged entry of {len(values[faulty])} bytes can't be read; the list of uncommitted"
            " objects was not completed",
            kind="bad-staged-entry",
        )
    size = int(offsets[relative])
    text = pa.StringArray.from_buffers(
        relative, pa.py_buffer(offsets[: relative + 1]), pa.py_buffer(addresses[:size])
    )
    return ScannedValues(text, seconds[:relative], other_positions[:others].tolist())


def staged_among(
    context: LakeContext, repository: Repository, token: str, wanted: Collection[str]
) -> set[str]:
    """Those of the addresses that a staging token has, also where a newer entry hides them."""
    met: set[str] = set()
    after = None
    while True:
        rows = context.kv.page(token, after=after, limit=_SCAN_ROWS)
        values = [value for _, value in rows]
        scanned = scan_staged_values(values)
        met.update(common_addresses(scanned.addresses, wanted))
        others = (values[position] for position in scanned.other_positions)
        met.update({staged_address(context, repository, value) for value in others} & set(wanted))
        if len(rows) < _SCAN_ROWS:
            return met
        after = rows[-1][0]


def common_addresses(addresses: pa.StringArray, wanted: Collection[str]) -> list[str]:
    """Those of the column that are wanted."""
    if not len(addresses):
        return []
    values = pa.array(list(wanted), pa.string())
    found: list[str] = addresses.filter(pc.is_in(addresses, value_set=values)).to_pylist()
    return found


@jitted
def _scan(
    data: Bytes,
    ends: Ints,
    found: Ints,
    offsets: npt.NDArray[np.int32],
    addresses: Bytes,
    seconds: Ints,
    other_positions: Ints,
) -> tuple[int, int, int]:
    """Returns (number of relative addresses, number of other ones, position of a value that is wrong or -1)."""
    relative = 0
    others = 0
    size = 0
    start = 0
    for i in range(ends.size):
        end = ends[i]
        if end > start:
            if read_value(data, start, end - start, found) < 0:
                return 0, 0, i
            if found[ADDRESS_TYPE] != RELATIVE:
                other_positions[others] = i
                others += 1
            else:
                first = found[ADDRESS_START]
                length = found[ADDRESS_SIZE]
                copy_bytes(data, first, length, addresses, size)
                size += length
                seconds[relative] = found[SECONDS]
                relative += 1
                offsets[relative] = size
        start = end
    return relative, others, -1
