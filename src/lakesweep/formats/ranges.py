"""Ranges: sorted files of a commit's entries, named by what they hold.

A reader that returns has checked every checksum and every bound, and read as many records as the file and the caller
promise; anything else raises FormatError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.errors import FormatError
from lakesweep.formats.entry_scan import FOUND_FIELDS, scan_addresses, scan_hashes, scan_sums
from lakesweep.formats.sstable import Table, open_table
from lakesweep.formats.sstable.faults import fault_error

__all__ = [
    "ADDRESSES_SCHEMA",
    "RangeHashes",
    "RangeSums",
    "open_range",
    "read_range_addresses",
    "read_range_hashes",
    "read_range_records",
    "read_range_sums",
]

ADDRESSES_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_type", pa.uint8(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class RangeHashes:
    """What a range refers to: hashes and sizes of its relative addresses, and its full addresses as they stand.

    `count` = number of hashes + number of full addresses = number of records. `root_names` of the relative addresses
    are names at the root of the namespace, and `several_readings` may be read in more ways than one by a server.
    """

    count: int
    hashes: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]
    full_addresses: list[str]
    root_names: int
    several_readings: int


@dataclass(frozen=True, slots=True, eq=False)
class RangeSums:
    """Size and content sum of every entry, in path order.

    `sums` are the first eight bytes of the MD5, as a number, where `is_md5` says that the entry's e_tag has that form.
    """

    sizes: npt.NDArray[np.int64]
    sums: npt.NDArray[np.uint64]
    is_md5: npt.NDArray[np.bool_]


def open_range(data: bytes, *, expected_count: int | None = None, entity: bytes = b"") -> Table:
    """The table of a range file: `get(key)`, `iterate(start)`, `records()`.

    Args:
        expected_count: what the metarange says; None where nobody said.
        entity: b"" for a commit's objects; b"commit", b"branch" or b"tag" for a range of a refs dump.

    Raises:
        FormatError: the file is damaged, is not such a range, or promises another number of records.
    """
    return open_typed(data, b"ranges", expected_count, entity)


def read_range_hashes(data: bytes, *, expected_count: int | None) -> RangeHashes:
    """Hash every relative address of a range (an old entry's address without a scheme counts as relative)."""
    table = open_range(data, expected_count=expected_count)
    scratch = table.scratch()
    capacity = table.capacity(scratch)
    hashes = np.empty(capacity, np.uint64)
    sizes = np.empty(capacity, np.int64)
    full_ends = np.empty(capacity, np.int64)
    full = np.empty(scratch.total_size, np.uint8)
    with np.errstate(over="ignore"):
        count, full_count, root_names, several_readings, number, within = scan_hashes(
            table.data,
            table.block_offsets,
            table.block_lengths,
            scratch.block,
            scratch.last_key,
            scratch.walk,
            np.empty(FOUND_FIELDS, np.int64),
            hashes,
            sizes,
            full_ends,
            full,
        )
    if count < 0:
        raise fault_error(count, "a data block", int(table.block_offsets[number]), within)
    table.check_count(count)
    return RangeHashes(
        count,
        hashes[: count - full_count],
        sizes[: count - full_count],
        _decode_addresses(full, full_ends[:full_count]),
        root_names,
        several_readings,
    )


def read_range_addresses(data: bytes, *, expected_count: int | None) -> pa.RecordBatch:
    """Address, address type, size and time of every entry, in path order (ADDRESSES_SCHEMA)."""
    table = open_range(data, expected_count=expected_count)
    scratch = table.scratch()
    capacity = table.capacity(scratch)
    offsets = np.empty(capacity + 1, np.int32)
    addresses = np.empty(scratch.total_size, np.uint8)
    address_types = np.empty(capacity, np.uint8)
    sizes, microseconds = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    has_time = np.empty(capacity, np.bool_)
    count, number, within = scan_addresses(
        table.data,
        table.block_offsets,
        table.block_lengths,
        scratch.block,
        scratch.last_key,
        scratch.walk,
        np.empty(FOUND_FIELDS, np.int64),
        offsets,
        addresses,
        address_types,
        sizes,
        microseconds,
        has_time,
    )
    if count < 0:
        raise fault_error(count, "a data block", int(table.block_offsets[number]), within)
    table.check_count(count)
    text = pa.py_buffer(addresses[: offsets[-1]].tobytes())
    column = pa.StringArray.from_buffers(capacity, pa.py_buffer(offsets), text)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError(
            f"a range holds an address that is not UTF-8: {error}", kind="bad-protobuf"
        ) from error
    times = pa.array(microseconds, mask=~has_time).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch(
        [column, pa.array(address_types), pa.array(sizes), times], schema=ADDRESSES_SCHEMA
    )


def read_range_sums(data: bytes) -> RangeSums:
    """Sizes and content sums of a range's entries."""
    table = open_range(data)
    scratch = table.scratch()
    capacity = table.capacity(scratch)
    found = RangeSums(
        np.empty(capacity, np.int64), np.empty(capacity, np.uint64), np.empty(capacity, np.bool_)
    )
    count, number, within = scan_sums(
        table.data,
        table.block_offsets,
        table.block_lengths,
        scratch.block,
        scratch.last_key,
        scratch.walk,
        np.empty(FOUND_FIELDS, np.int64),
        found.sizes,
        found.sums,
        found.is_md5,
    )
    if count < 0:
        raise fault_error(count, "a data block", int(table.block_offsets[number]), within)
    table.check_count(count)
    return found


def read_range_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Raw (key, value) pairs of a range, in key order, for merges."""
    return iter(open_range(data).records())


def open_typed(data: bytes, kind: bytes, expected_count: int | None, entity: bytes) -> Table:
    """Open a table that must be of `kind` and `entity`, and whose counts agree."""
    table = open_table(data)
    user = table.properties.user
    if user.get("type") != kind or user.get("entity", b"") != entity:
        raise FormatError(
            f"expected a file of type {kind!r} and entity {entity!r}, and got one of type {user.get('type')!r} "
            f"and entity {user.get('entity', b'')!r}",
            kind="wrong-table",
        )
    promised = {str(len(table)).encode(), user.get("count", b"")}
    if expected_count is not None:
        promised.add(str(expected_count).encode())
    if len(promised) != 1:
        raise FormatError(
            f"a {kind.decode()} file has {len(table)} records, says it has {user.get('count')!r}, "
            f"and should have {'any number' if expected_count is None else expected_count}",
            kind="wrong-count",
        )
    return table


def _decode_addresses(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> list[str]:
    if not ends.size:
        return []
    raw = data[: ends[-1]].tobytes()
    starts = [0, *ends[:-1].tolist()]
    try:
        return [raw[start:end].decode() for start, end in zip(starts, ends.tolist(), strict=True)]
    except UnicodeDecodeError as error:
        raise FormatError(
            f"a range holds an address that is not UTF-8: {error}", kind="bad-protobuf"
        ) from error
