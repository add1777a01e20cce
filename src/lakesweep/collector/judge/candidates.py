"""Candidates as cells: rows that may be garbage, and a row of counts for each file or range they were read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from lakesweep.collector.parts import Part, sum_of
from lakesweep.domain.verdicts import Source
from lakesweep.engine.cells import Hashes, flush_threshold, pack_rows, single_cell
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.progress import advance
from lakesweep.storage import ObjectStore

# Kinds of candidate cells.
ROWS, COUNTS = 1, 2

_COUNTS = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)


class Candidates(Protocol):
    """A source of candidates, such as a part. `rows` and `bytes` are what it must hold; None where nobody promised."""

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def bytes(self) -> int | None: ...


Item = TypeVar("Item", bound=Candidates)


@dataclass(frozen=True, slots=True)
class CandidatePart:
    """A part with candidates. `rows` and `bytes` are None for a file that somebody other than us may have written."""

    key: str
    source: Source
    rows: int | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.source.name.lower()}:{self.key}"


def listed_parts(parts: Iterable[Part]) -> list[CandidatePart]:
    """The parts that a listing wrote, as sources of candidates."""
    return [CandidatePart(p.key, Source.LISTED, p.rows, p.bytes) for p in parts]


def planned_parts(parts: Iterable[Part]) -> list[CandidatePart]:
    """The parts that a plan names, or that a round of its sweep has left, as sources of candidates."""
    return [CandidatePart(p.key, Source.PLANNED, p.rows, p.bytes) for p in parts]


def counts_schema(*more: pa.Field) -> pa.Schema:
    """The schema of the counts that come with each source of candidates, with a catalog's own columns at its end."""
    return pa.schema([*_COUNTS, *more])


def candidate_cells(
    items: Iterable[Item],
    read: Callable[[Item], Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]],
    hashes_of: Callable[[pa.RecordBatch], Hashes],
    partitions: int,
    *,
    bytes_per_row: int,
    counts: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Cells of rows, and one COUNTS cell per task. `read` gives batches with a `size_bytes` column, and what to add up."""
    limit = flush_threshold(partitions, bytes_per_row)
    waiting: list[pa.RecordBatch] = []
    rows_waiting = 0
    seen: list[dict[str, object]] = []

    def packed() -> pa.RecordBatch:
        rows = pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]
        return pack_rows(ROWS, rows, hashes_of(rows), partitions)

    for item in items:
        rows = size = 0
        more = dict.fromkeys(counts.names[len(_COUNTS) :], 0)
        for batch, own in read(item):
            batch_bytes = sum_of(batch, "size_bytes")
            rows += batch.num_rows
            size += batch_bytes
            advance(batch.num_rows, batch_bytes)
            more = {name: total + own.get(name, 0) for name, total in more.items()}
            waiting.append(batch)
            rows_waiting += batch.num_rows
            if rows_waiting >= limit:
                yield packed()
                waiting, rows_waiting = [], 0
        seen.append({"item": item.name, "rows": rows, "bytes": size, **more})
    if rows_waiting:
        yield packed()
    if seen:
        home = sum(len(str(c["item"])) for c in seen) % partitions
        yield single_cell(COUNTS, home, pa.RecordBatch.from_pylist(seen, schema=counts))


def read_needed(store: ObjectStore, key: str) -> bytes:
    """A file that candidates stand in. Without it nobody knows what was found, so the run ends."""
    try:
        return store.read(key)
    except ObjectNotFoundError as error:
        raise UnsafeToSweepError(
            f"A file that this run needs is missing: {error.message} Nothing was deleted. Mark again.",
            kind="candidates-missing",
        ) from error
