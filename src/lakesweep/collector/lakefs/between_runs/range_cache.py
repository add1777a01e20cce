"""Hashes of ranges, kept between runs. A range is immutable and named by its content, so it is read once.

A pack is a digest and one Arrow file with the hashes of many ranges. A pack that is damaged or was made for another
namespace or by another version counts as absent, and so does an entry with another count than its metarange promises:
the ranges themselves are then read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.namespace import NORMALISER_VERSION
from lakesweep.collector.judge.magnitudes import Magnitudes
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.cells import Hashes

# Raise it when the hash or this layout changes: old packs are then passed over.
CACHE_VERSION = f"lakesweep.range-hashes/4 xxh64-0 normaliser-{NORMALISER_VERSION}"

_DIGEST_BYTES = 32
_ARRAYS = {"hashes": np.uint64, "magnitudes": np.uint8}

PACK_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("hashes", pa.binary(), nullable=False),
        pa.field("magnitudes", pa.binary(), nullable=False),
        pa.field("root_names", pa.int64(), nullable=False),
        pa.field("outside", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RangeHashes:
    """The addresses of one range that lie in the namespace, hashed, each with the magnitude of its size.

    `count` is the number of entries in the range, of which `outside` lie outside the namespace and have no hash. There
    are more hashes than others where an address has several readings. `root_names` of the entries have an address that a server itself
    gave at the root of the namespace.
    """

    range_id: RangeId
    count: int
    hashes: Hashes
    magnitudes: Magnitudes
    root_names: int = 0
    outside: int = 0


def write_pack(ranges: Iterable[RangeHashes], namespace: Location) -> bytes:
    """A pack of these ranges, bound to the namespace that their addresses were resolved against."""
    rows = [{name: getattr(r, name) for name in PACK_SCHEMA.names} for r in ranges]
    packed = [row | {name: row[name].tobytes() for name in _ARRAYS} for row in rows]
    schema = PACK_SCHEMA.with_metadata(_binding(namespace))
    batch = pa.RecordBatch.from_pylist(packed, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = bytes(sink.getvalue())
    return _digest(body) + body


def read_pack(
    data: bytes, namespace: Location, wanted: Mapping[RangeId, int]
) -> dict[RangeId, RangeHashes]:
    """Those of the wanted ranges (id → promised count) that the pack holds, if it is intact."""
    body = memoryview(data)[_DIGEST_BYTES:]
    # Arrow trusts offsets inside a file, so it only ever sees bytes that are what we wrote.
    if _digest(body) != data[:_DIGEST_BYTES]:
        return {}
    reader = pa.ipc.open_file(pa.py_buffer(body))
    if reader.schema.metadata != _binding(namespace):
        return {}
    found: dict[RangeId, RangeHashes] = {}
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        for row, name in enumerate(batch.column("range_id").to_pylist()):
            range_id = RangeId(name)
            count = batch.column("count")[row].as_py()
            if wanted.get(range_id) == count:
                hashes, magnitudes = (
                    np.frombuffer(batch.column(name)[row].as_buffer(), dtype=dtype)
                    for name, dtype in _ARRAYS.items()
                )
                found[range_id] = RangeHashes(
                    range_id,
                    count,
                    hashes,
                    magnitudes,
                    root_names=batch.column("root_names")[row].as_py(),
                    outside=batch.column("outside")[row].as_py(),
                )
    return found


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _binding(namespace: Location) -> dict[bytes, bytes]:
    return {b"version": CACHE_VERSION.encode(), b"namespace": namespace.uri.encode()}
