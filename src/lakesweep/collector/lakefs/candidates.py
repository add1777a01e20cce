"""Read candidates (listed objects, a plan's rows, addresses of expired ranges, saved lists) and emit them as cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.judge.candidates import (
    CandidatePart,
    candidate_cells,
    counts_schema,
    read_needed,
)
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import ROOT_CANDIDATE_PATTERN
from lakesweep.domain.commits import RangeId
from lakesweep.domain.verdicts import Source
from lakesweep.formats.damage import named_damage
from lakesweep.formats.entries import AddressType
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.ranges import read_range_addresses
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore

ROW_SCHEMA = pa.schema(
    [
        *CANDIDATE_SCHEMA,
        pa.field("source", pa.int8(), nullable=False),
        pa.field("reason", pa.string()),
    ]
)

# Names at the root of the namespace that a server gave, in an expired range.
COUNTS_SCHEMA = counts_schema(pa.field("root_names", pa.int64(), nullable=False))

_NOT_SAVED = ("size_bytes", "last_modified")
# A packed row is an address of some fifty bytes, its numbers, and Arrow's share.
_BYTES_PER_ROW = 100


@dataclass(frozen=True, slots=True)
class ExpiredRange:
    """A range that only expired commits hold: its addresses are candidates without a listing."""

    range_id: RangeId
    count: int
    rows: None = None  # full addresses may lie outside the namespace
    bytes: None = None

    @property
    def name(self) -> str:
        return f"expired:{self.range_id}"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A saved list of an earlier run: the server's uncommitted list, or what that run carried on."""

    key: str
    rows: None = None
    bytes: None = None

    @property
    def name(self) -> str:
        return f"saved:{self.key}"


Candidate = CandidatePart | ExpiredRange | SavedFile


def read_candidates(
    target: Target, partitions: int, candidates: Iterator[Candidate]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of candidate rows, and one COUNTS cell per task with a row per item."""
    store, normaliser = target.open(), normaliser_of(target)
    return candidate_cells(
        candidates,
        partial(_rows_of, store, normaliser),
        lambda rows: hash_addresses(rows.column("address")),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=COUNTS_SCHEMA,
    )


def _rows_of(
    store: ObjectStore, normaliser: AddressNormaliser, item: Candidate
) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
    """Rows, and how many of them have an address that a server itself gave at the root of the namespace."""
    match item:
        case CandidatePart(source=Source.LISTED):
            for batch in read_part(read_needed(store, item.key), CANDIDATE_SCHEMA, item.key):
                yield _rows(batch, Source.LISTED), {}
        case CandidatePart():
            data = read_needed(store, item.key)
            with named_damage(item.key, "Mark again."):
                rows = read_mark(data)
            for batch in rows.to_batches():
                yield _rows(batch, Source.PLANNED, batch.column("reason")), {}
        case ExpiredRange():
            data = read_needed(store, f"_lakefs/{item.range_id}")
            with named_damage(f"_lakefs/{item.range_id}"):
                batch = read_range_addresses(data, expected_count=item.count)
            inside = _inside_namespace(batch, normaliser)
            yield _rows(inside, Source.COMMITTED), {"root_names": _root_names(batch)}
        case SavedFile():
            # The server's list and those of failed deletes say only who; parts of ours have an age.
            for batch in read_saved(read_needed(store, item.key), item.key):
                yield _rows(batch, Source.SAVED), {}


def read_saved(data: bytes, key: str) -> Iterator[pa.RecordBatch]:
    """The rows of a list that an earlier run left; size and age are null where it says only who."""
    return read_part(data, CANDIDATE_SCHEMA, key, optional=_NOT_SAVED)


def _rows(batch: pa.RecordBatch, source: Source, reason: pa.Array | None = None) -> pa.RecordBatch:
    columns = [batch.column(name) for name in CANDIDATE_SCHEMA.names]
    sources = pa.array(np.full(batch.num_rows, source, dtype=np.int8))
    reasons = reason if reason is not None else pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*columns, sources, reasons], schema=ROW_SCHEMA)


def _root_names(batch: pa.RecordBatch) -> int:
    """Entries at the root of the namespace by their own name. One linked by its full address is a foreign file."""
    is_root = pc.match_substring_regex(batch.column("address"), ROOT_CANDIDATE_PATTERN)
    is_full = pc.equal(batch.column("address_type"), int(AddressType.FULL))
    return int(pc.sum(pc.and_not(is_root, is_full)).as_py() or 0)


def _inside_namespace(batch: pa.RecordBatch, normaliser: AddressNormaliser) -> pa.RecordBatch:
    """Range entries as candidates: relative addresses as they are, full ones only when they lie in the namespace."""
    addresses = batch.column("address")
    is_full = pc.equal(batch.column("address_type"), int(AddressType.FULL))
    if pc.any(is_full).as_py():
        kinds = batch.column("address_type").to_pylist()
        resolved = [
            normaliser.relative(address) if kind == AddressType.FULL else address
            for address, kind in zip(addresses.to_pylist(), kinds, strict=True)
        ]
        addresses = pa.array(resolved, pa.string())
    rows = pa.RecordBatch.from_arrays(
        [
            addresses,
            batch.column("size"),
            batch.column("last_modified").cast(pa.timestamp("us", tz="UTC")),
        ],
        schema=CANDIDATE_SCHEMA,
    )
    return rows.filter(pc.is_valid(addresses))
