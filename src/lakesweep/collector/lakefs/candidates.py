"""Read candidates (listed objects, a plan's rows, addresses of expired ranges, saved lists) and emit them as cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.lakefs.list_prefixes import CANDIDATE_SCHEMA
from lakesweep.collector.parts import read_addresses, read_part
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import ROOT_CANDIDATE_PATTERN
from lakesweep.domain.commits import RangeId
from lakesweep.engine.cells import flush_threshold, pack_rows, single_cell
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.entries import AddressType
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.ranges import read_range_addresses
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore

# Kinds of candidate cells.
ROWS, COUNTS = 1, 2

# Where a candidate came from. Lower wins when one address comes from several: a listing knows age and size.
LISTED, PLANNED, COMMITTED, SAVED = 0, 1, 2, 3

ROW_SCHEMA = pa.schema(
    [
        *CANDIDATE_SCHEMA,
        pa.field("source", pa.int8(), nullable=False),
        pa.field("reason", pa.string()),
    ]
)

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("source", pa.int8(), nullable=False),
        pa.field(
            "root_names", pa.int64(), nullable=False
        ),  # of an expired range: given by a server
    ]
)

# A packed row is an address of some fifty bytes, its numbers, and Arrow's share.
_BYTES_PER_ROW = 100


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A part that a listing wrote, and the rows it promised."""

    key: str
    rows: int

    @property
    def name(self) -> str:
        return f"listed:{self.key}"


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part of a mark: what a sweep may delete. Of one that a round of the sweep wrote, the rows are known."""

    key: str
    rows: int | None = None

    @property
    def name(self) -> str:
        return f"planned:{self.key}"


@dataclass(frozen=True, slots=True)
class ExpiredRange:
    """A range that only expired commits hold: its addresses are candidates without a listing."""

    range_id: RangeId
    count: int

    @property
    def name(self) -> str:
        return f"expired:{self.range_id}"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A saved list of an earlier run: the server's uncommitted list, or what that run carried on."""

    key: str

    @property
    def name(self) -> str:
        return f"saved:{self.key}"


Candidate = ListedPart | PlannedPart | ExpiredRange | SavedFile


def read_candidates(
    target: Target, partitions: int, candidates: Iterator[Candidate]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of candidate rows, and one COUNTS cell per task with a row per item."""
    store = target.open()
    normaliser = target.normaliser()
    limit = flush_threshold(partitions, _BYTES_PER_ROW)
    waiting: list[pa.RecordBatch] = []
    rows_waiting = 0
    counts: list[dict[str, object]] = []
    for item in candidates:
        rows = size = source = root_names = 0
        for batch, own_root_names in _rows_of(store, normaliser, item):
            rows += batch.num_rows
            root_names += own_root_names
            size += int(pc.sum(batch.column("size_bytes")).as_py() or 0)
            source = batch.column("source")[0].as_py() if batch.num_rows else source
            waiting.append(batch)
            rows_waiting += batch.num_rows
            if rows_waiting >= limit:
                yield _packed(waiting, partitions)
                waiting, rows_waiting = [], 0
        counts.append(
            {
                "item": item.name,
                "rows": rows,
                "bytes": size,
                "source": source,
                "root_names": root_names,
            }
        )
    if rows_waiting:
        yield _packed(waiting, partitions)
    if counts:
        home = sum(len(str(c["item"])) for c in counts) % partitions
        yield single_cell(COUNTS, home, pa.RecordBatch.from_pylist(counts, schema=COUNTS_SCHEMA))


def _packed(batches: list[pa.RecordBatch], partitions: int) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches, schema=ROW_SCHEMA).combine_chunks().to_batches()[0]
    return pack_rows(ROWS, rows, hash_addresses(rows.column("address")), partitions)


def _rows_of(
    store: ObjectStore, normaliser: AddressNormaliser, item: Candidate
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Rows, and how many of them have an address that a server itself gave at the root of the namespace."""
    match item:
        case ListedPart():
            for batch in read_part(_read(store, item.key), CANDIDATE_SCHEMA, item.key):
                yield _rows(batch, LISTED), 0
        case PlannedPart():
            data = _read(store, item.key)
            with named_damage(item.key, "Mark again."):
                rows = read_mark(data)
            for batch in rows.to_batches():
                yield _rows(batch, PLANNED, batch.column("reason")), 0
        case ExpiredRange():
            data = _read(store, f"_lakefs/{item.range_id}")
            with named_damage(f"_lakefs/{item.range_id}"):
                batch = read_range_addresses(data, expected_count=item.count)
            yield _rows(_inside_namespace(batch, normaliser), COMMITTED), _root_names(batch)
        case SavedFile():
            # A saved list says only who; size and age are looked up in the store later.
            for addresses in read_addresses(_read(store, item.key), item.key):
                count = len(addresses)
                bare = pa.RecordBatch.from_arrays(
                    [
                        addresses,
                        pa.nulls(count, pa.int64()),
                        pa.nulls(count, pa.timestamp("us", tz="UTC")),
                    ],
                    schema=CANDIDATE_SCHEMA,
                )
                yield _rows(bare, SAVED), 0


def _rows(batch: pa.RecordBatch, source: int, reason: pa.Array | None = None) -> pa.RecordBatch:
    count = batch.num_rows
    return pa.RecordBatch.from_arrays(
        [
            batch.column("address"),
            batch.column("size_bytes"),
            batch.column("last_modified"),
            pa.array(np.full(count, source, dtype=np.int8)),
            reason if reason is not None else pa.nulls(count, pa.string()),
        ],
        schema=ROW_SCHEMA,
    )


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


def _read(store: ObjectStore, key: str) -> bytes:
    try:
        return store.read(key)
    except ObjectNotFoundError as error:
        raise UnsafeToSweepError(
            f"A file that this run needs is missing: {error.message} Nothing was deleted. Mark again.",
            kind="candidates-missing",
        ) from error
