"""Hashes of ranges, kept between runs. A range is immutable and named by its content, so it is read once.

A pack is one Arrow file with the hashes of many ranges. An entry that does not agree with what is expected of it
(count, checksum, format, namespace) counts as absent, and the range itself is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.namespace import NORMALISER_VERSION
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.cells import Hashes

# Raise it when the hash or this layout changes: old packs are then passed over.
CACHE_VERSION = f"lakesweep.range-hashes/1 xxh64-0 normaliser-{NORMALISER_VERSION}"

PACK_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("checksum", pa.binary(16), nullable=False),
        pa.field("hashes", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class RangeHashes:
    """The addresses of one range that lie in the namespace, hashed.

    `count` is the number of entries in the range. There are fewer hashes where entries lie outside the namespace,
    and more where an address has several readings.
    """

    range_id: RangeId
    count: int
    hashes: Hashes


def write_pack(ranges: Iterable[RangeHashes], namespace: Location) -> bytes:
    """A pack of these ranges, bound to the namespace that their addresses were resolved against."""
    rows = list(ranges)
    hashes = [r.hashes.tobytes() for r in rows]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([r.range_id for r in rows], pa.string()),
            pa.array([r.count for r in rows], pa.int64()),
            pa.array(
                [_checksum(r.range_id, r.count, h) for r, h in zip(rows, hashes, strict=True)],
                pa.binary(16),
            ),
            pa.array(hashes, pa.binary()),
        ],
        schema=PACK_SCHEMA.with_metadata(_binding(namespace)),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_pack(
    data: bytes, namespace: Location, wanted: Mapping[RangeId, int]
) -> dict[RangeId, RangeHashes]:
    """Those of the wanted ranges (id → promised count) that the pack holds intact."""
    found: dict[RangeId, RangeHashes] = {}
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        if reader.schema.metadata != _binding(namespace):
            return {}
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError):
        # A damaged pack is no pack; the ranges are read instead.
        return {}
    for batch in batches:
        for row in range(batch.num_rows):
            range_id = RangeId(batch.column("range_id")[row].as_py())
            if range_id not in wanted:
                continue
            entry = _checked_entry(batch, row, range_id)
            if entry is not None and entry.count == wanted[range_id]:
                found[range_id] = entry
    return found


def _checked_entry(batch: pa.RecordBatch, row: int, range_id: RangeId) -> RangeHashes | None:
    raw = batch.column("hashes")[row].as_buffer()
    count = batch.column("count")[row].as_py()
    if len(raw) % 8 or batch.column("checksum")[row].as_py() != _checksum(range_id, count, raw):
        return None
    return RangeHashes(range_id, count, np.frombuffer(raw, dtype=np.uint64))


def _checksum(range_id: str, count: int, hashes: bytes | pa.Buffer) -> bytes:
    digest = hashlib.blake2b(f"{range_id} {count} ".encode(), digest_size=16)
    digest.update(hashes)
    return digest.digest()


def _binding(namespace: Location) -> dict[bytes, bytes]:
    return {b"version": CACHE_VERSION.encode(), b"namespace": namespace.uri.encode()}
