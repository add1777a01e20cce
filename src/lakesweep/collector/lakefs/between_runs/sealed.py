"""Arrow files of ours that are believed only as we wrote them: a digest, then the file, bound to a version and a namespace."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa

from lakesweep.domain.location import Location

__all__ = ["read_sealed", "write_sealed"]

_DIGEST_BYTES = 32


def write_sealed(
    batch: pa.RecordBatch, version: str, namespace: Location, compression: str | None = None
) -> bytes:
    """The rows as a file."""
    sink = pa.BufferOutputStream()
    schema = batch.schema.with_metadata(_binding(version, namespace))
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    body = bytes(sink.getvalue())
    return _digest(body) + body


def read_sealed(data: bytes, version: str, namespace: Location) -> Iterator[pa.RecordBatch]:
    """The rows of a file; none of one that is damaged, cut short, or of another version or namespace."""
    body = memoryview(data)[_DIGEST_BYTES:]
    # Arrow trusts offsets inside a file, so it only ever sees bytes that are what we wrote.
    if _digest(body) != data[:_DIGEST_BYTES]:
        return
    reader = pa.ipc.open_file(pa.py_buffer(body))
    if reader.schema.metadata != _binding(version, namespace):
        return
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _binding(version: str, namespace: Location) -> dict[bytes, bytes]:
    return {b"version": version.encode(), b"namespace": namespace.uri.encode()}
