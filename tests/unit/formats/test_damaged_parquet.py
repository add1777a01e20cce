"""Lists and parts in Parquet: a damaged one is told, and never read as a shorter or another list."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.parts import PartWriter, read_addresses, read_part
from lakesweep.domain.location import Location
from lakesweep.errors import FormatError
from lakesweep.formats.tables import (
    MARK_SCHEMA,
    UNCOMMITTED_SCHEMA,
    read_mark,
    read_uncommitted,
    write_mark,
    write_uncommitted,
)
from lakesweep.formats.xid import new_descending_xid, new_xid
from lakesweep.lake.collection.uncommitted_file import UncommittedFile
from lakesweep.storage import open_store

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESSES = [f"data/{new_descending_xid(NOW)}/{new_xid(NOW)}" for _ in range(40)]
FLIPS = 1500


def _servers_list() -> bytes:
    file = UncommittedFile(1 << 30)
    for address in ADDRESSES:
        file.add(address, NOW)
    return file.finish()


def _own_list() -> bytes:
    table = pa.table([ADDRESSES, [1] * len(ADDRESSES)], schema=UNCOMMITTED_SCHEMA)
    return write_uncommitted(table)


def _mark() -> bytes:
    rows = [{"address": a, "size_bytes": 1, "last_modified": NOW} for a in ADDRESSES]
    return write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA))


def _part() -> bytes:
    store = open_store(Location.parse(f"mem://parts-{uuid.uuid4().hex}/ns"))
    writer = PartWriter(store, "parts/", "p", CANDIDATE_SCHEMA)
    rows = [{"address": a, "size_bytes": 1, "last_modified": NOW} for a in ADDRESSES]
    writer.add(pa.RecordBatch.from_pylist(rows, schema=CANDIDATE_SCHEMA))
    (part,) = writer.close()
    return store.read(part.key)


def _rows_of_part(data: bytes) -> pa.Table:
    return pa.Table.from_batches(read_part(data, CANDIDATE_SCHEMA, "x"), schema=CANDIDATE_SCHEMA)


def _addresses(data: bytes) -> list[str]:
    return [a for chunk in read_addresses(data, "x") for a in chunk.to_pylist()]


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (_servers_list, lambda data: read_uncommitted(data).column("physical_address")),
        (_own_list, read_uncommitted),
        (_own_list, _addresses),
        (_mark, lambda data: read_mark(data).column("address")),
        (_part, _rows_of_part),
    ],
    ids=["server's list", "uncommitted list", "addresses", "mark", "part"],
)
def test_flipped_bit_is_told_or_changes_nothing(
    write: Callable[[], bytes], read: Callable[[bytes], object]
) -> None:
    """Ages and addresses are never silently other ones, and no row is silently missing."""
    data = write()
    expected = read(data)
    chance = random.Random(5)
    told = 0
    for _ in range(FLIPS):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            found = read(bytes(damaged))
        except FormatError:
            told += 1
            continue
        assert found == expected
    assert told > FLIPS / 4


def test_damaged_date_in_a_mark_is_the_true_one_or_none() -> None:
    """A column that can't be found counts as unknown, and unknown ages are asked of the store."""
    data = _mark()
    chance = random.Random(6)
    for _ in range(FLIPS):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            found = read_mark(bytes(damaged)).column("last_modified").to_pylist()
        except FormatError:
            continue
        assert set(found) in ({NOW}, {None})


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
@pytest.mark.parametrize("read", [read_mark, _rows_of_part], ids=["mark", "part"])
def test_times_in_another_unit_are_told(read: Callable[[bytes], pa.Table], unit: str) -> None:
    """A flipped bit in the footer makes nanoseconds of microseconds, and 1970 of today."""
    count = len(ADDRESSES)
    times = pa.array([NOW] * count, pa.timestamp(unit, "UTC"))
    table = {"address": ADDRESSES, "size_bytes": [1] * count, "last_modified": times}
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(table), out)
    with pytest.raises(FormatError, match="last_modified"):
        read(out.getvalue().to_pybytes())


@pytest.mark.parametrize("write", [_servers_list, _mark, _part])
def test_list_cut_short_is_told(write: Callable[[], bytes]) -> None:
    """However much is left of it."""
    data = write()
    for size in range(0, len(data), 7):
        with pytest.raises(FormatError):
            _addresses(data[:size])
