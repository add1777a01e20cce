"""Compiling the compiled parts ahead of time, so that no task waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa

from lakesweep.formats.avro.reader import read_columns
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.file_hashes import hash_files
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import open_range, read_range_addresses, read_range_hashes
from lakesweep.formats.values import join_value
from lakesweep.storage.s3.page_rows import scan_rows

__all__ = ["warm_up", "warm_up_iceberg"]


def warm_up() -> None:
    """Run every compiled function once. Some 20 seconds on a new machine, then a fraction of one: numba keeps the code."""
    row = (
        b"<Contents><Key>a/b</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified>"
        b"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
    )
    assert scan_rows(row, 0, b"a/", is_encoded=True) is not None
    for text in (pa.string(), pa.large_string()):
        hash_addresses(pa.array(["data/slice/object"], text))
    warm_up_iceberg()
    for written in write_ranges(_sample_records(1000)):
        read_range_hashes(written.data, expected_count=written.count)
        read_range_addresses(written.data, expected_count=written.count)
        open_range(written.data).records()


def _sample_records(count: int) -> Iterator[tuple[bytes, bytes]]:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    for number in range(count):
        # Both kinds of address take their own road through the readers.
        kind = AddressType.RELATIVE if number % 10 else AddressType.FULL
        entry = Entry(f"data/slice/{number:06}", at, number, "etag", {}, kind, "text/plain")
        yield f"path/{number:06}".encode(), join_value(b"identity", entry.encode())


def warm_up_iceberg() -> None:
    """Run what reads manifests and hashes their files once, on an Avro file of one object with one text."""
    schema = b'{"type":"record","name":"r","fields":[{"name":"p","type":"string"}]}'
    sync = bytes(16)
    header = b"Obj\x01\x02" + _avro_text(b"avro.schema") + _avro_text(schema) + b"\x00" + sync
    block = b"\x02" + _avro_text(_avro_text(b"s3a://lake/file")) + sync
    hash_files(read_columns(header + block, ["p"], what="a sample").column("p"))


def _avro_text(text: bytes) -> bytes:
    doubled = 2 * len(text)  # lengths are zigzag numbers of seven bits a byte
    return (
        bytes([doubled]) + text
        if doubled < 128
        else bytes([doubled % 128 + 128, doubled // 128]) + text
    )
