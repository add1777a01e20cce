"""Hashes of ranges, kept between runs. A range is immutable and named by its content, so it is read once.

A pack is a digest and one Arrow file with the hashes of many ranges. A pack that is damaged or was made for another
namespace or by another version counts as absent, and so does an entry with another count than its metarange promises:
the ranges themselves are then read. Beside a pack may lie a file with the sizes of its ranges' entries, made alike: it
spares the search for staged re-uploads the ranges that have no entry of a size in question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.catalogs.lakefs.namespace import NORMALISER_VERSION
from lakesweep.collector.judge.magnitudes import Magnitudes
from lakesweep.collector.lakefs.between_runs.sealed import read_sealed, write_sealed
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.cells import Hashes

# Raise it when the hash or this layout changes: old packs are then passed over.
CACHE_VERSION = f"lakesweep.range-hashes/5 xxh64-0 normaliser-{NORMALISER_VERSION}"

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
SIZES_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        # Of each entry in path order the lower 32 bits.
        pa.field("sizes", pa.binary(), nullable=False),
    ]
)
SizeBits = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class HashedRange:
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
    sizes: SizeBits | None = None  # of entries with relative addresses; None: not read


def size_bits(sizes: npt.NDArray[np.int64]) -> SizeBits:
    """The lower 32 bits of sizes, which are all of it below 4 GiB."""
    return (sizes & 0xFFFFFFFF).astype(np.uint32)


def sizes_beside(pack: str) -> str:
    """The key of the file with the sizes of a pack's ranges."""
    return pack.replace("/pack-", "/sizes-")


def write_sizes(ranges: Iterable[HashedRange], namespace: Location) -> bytes:
    """The sizes of the ranges' entries as a file, without the ranges whose sizes were not read."""
    rows = [
        {"range_id": r.range_id, "sizes": r.sizes.tobytes()} for r in ranges if r.sizes is not None
    ]
    return _packed(rows, SIZES_SCHEMA, namespace)


def read_sizes(data: bytes, namespace: Location) -> tuple[list[RangeId], list[int], SizeBits]:
    """Range ids, where each range's sizes end, and all sizes in a row; empty where the file is not one that we wrote."""
    ids: list[RangeId] = []
    ends: list[int] = []
    sizes: list[SizeBits] = []
    for batch in read_sealed(data, CACHE_VERSION, namespace):
        ids += map(RangeId, batch.column("range_id").to_pylist())
        for blob in batch.column("sizes"):
            sizes.append(np.frombuffer(blob.as_buffer(), np.uint32))
            ends.append((ends[-1] if ends else 0) + len(sizes[-1]))
    return ids, ends, np.concatenate([np.empty(0, np.uint32), *sizes])


def write_pack(ranges: Iterable[HashedRange], namespace: Location) -> bytes:
    """A pack of these ranges, bound to the namespace that their addresses were resolved against."""
    rows = [{name: getattr(r, name) for name in PACK_SCHEMA.names} for r in ranges]
    packed = [row | {name: row[name].tobytes() for name in _ARRAYS} for row in rows]
    return _packed(packed, PACK_SCHEMA, namespace)


def read_pack(
    data: bytes, namespace: Location, wanted: Mapping[RangeId, int]
) -> dict[RangeId, HashedRange]:
    """The wanted ranges (id → promised count) that the pack holds; none where it is damaged or of another namespace."""
    found: dict[RangeId, HashedRange] = {}
    for batch in read_sealed(data, CACHE_VERSION, namespace):
        for row, name in enumerate(batch.column("range_id").to_pylist()):
            range_id = RangeId(name)
            count = batch.column("count")[row].as_py()
            if wanted.get(range_id) == count:
                hashes, magnitudes = (
                    np.frombuffer(batch.column(name)[row].as_buffer(), dtype=dtype)
                    for name, dtype in _ARRAYS.items()
                )
                found[range_id] = HashedRange(
                    range_id,
                    count,
                    hashes,
                    magnitudes,
                    root_names=batch.column("root_names")[row].as_py(),
                    outside=batch.column("outside")[row].as_py(),
                )
    return found


def _packed(rows: list[dict[str, Any]], schema: pa.Schema, namespace: Location) -> bytes:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    return write_sealed(batch, CACHE_VERSION, namespace)
