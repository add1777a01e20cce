"""Compiling the compiled parts ahead of time, so that no task waits for them."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.formats.avro.reader import read_columns
from lakesweep.formats.entries import Entry
from lakesweep.formats.file_hashes import hash_files
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import open_range, read_range_addresses, read_range_hashes
from lakesweep.formats.values import join_value

__all__ = ["warm_up", "warm_up_iceberg"]


def warm_up() -> None:
    """Run every compiled function once. Some 20 seconds on a new machine, then a fraction of one: numba keeps the code."""
    entry = Entry("data/slice/object", None, 1, "e")
    [written] = write_ranges([(b"path", join_value(bytes(32), entry.encode()))])
    read_range_hashes(written.data, expected_count=1)
    read_range_addresses(written.data, expected_count=1)
    open_range(written.data).records()
    hash_addresses(pa.array([entry.address]))
    warm_up_iceberg()


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
