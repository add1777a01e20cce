"""Delete a chunk of an authorised part: intent first, then one outcome for each key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.collector.ledger.deadline import Deadline, write_and_time
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.target import Target, own_name
from lakesweep.domain.addresses import is_candidate
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.formats.tables import read_mark
from lakesweep.storage import DeleteStatus, ObjectStore

OUTCOME_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

DELETED_SCHEMA = pa.schema(
    [
        pa.field("chunk", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("example", pa.string()),
    ]
)

# Outcomes that end a key's story, and those that a later try may change.
DELETED, ALREADY_GONE = "deleted", "already_gone"
DENIED, THROTTLED, FAILED, PROTECTED = "denied", "throttled", "failed", "protected"
NOT_TRIED = "not_tried"  # the authorisation had run out
CLOCK_OFF = "clock_off"  # not tried, on an executor whose clock is not the store's
CHANGED = "changed"  # another object than the planned one, so it was kept
DONE = frozenset({DELETED, ALREADY_GONE})

OUTCOME_OF = {
    DeleteStatus.GONE: DELETED,
    DeleteStatus.ALREADY_ABSENT: ALREADY_GONE,
    DeleteStatus.DENIED: DENIED,
    DeleteStatus.THROTTLED: THROTTLED,
    DeleteStatus.FAILED: FAILED,
    DeleteStatus.CHANGED: CHANGED,
    DeleteStatus.NOT_TRIED: NOT_TRIED,
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of an authorised part, to be deleted before `not_after` by the store's clock or not at all.

    An executor whose own clock differs from the store's by more than `clock_skew` deletes nothing.
    """

    part: str
    start: int
    rows: int
    not_after: datetime
    root_names: bool = False  # whether the repository's commits hold addresses at the root
    clock_skew: timedelta = SAFETY_FULL.clock_skew

    @property
    def name(self) -> str:
        return f"{self.part.rsplit('/', 1)[-1].removesuffix('.parquet')}-{self.start}"


def chunks_of(
    parts: Sequence[Part],
    not_after: datetime,
    rows: int,
    *,
    clock_skew: timedelta = SAFETY_FULL.clock_skew,
    root_names: bool = False,
) -> list[Chunk]:
    """All rows of the parts, so many at a time."""
    return [
        Chunk(part.key, start, min(rows, part.rows - start), not_after, root_names, clock_skew)
        for part in parts
        for start in range(0, part.rows, rows)
    ]


@dataclass(frozen=True, slots=True)
class LedgerFolders:
    """Where a sweep writes: intents and failures in its ledger, deletions in the events that outlive it."""

    ledger: str
    deleted: str


def delete_chunks(
    target: Target, folders: LedgerFolders, chunks: Iterator[Chunk]
) -> Iterator[pa.RecordBatch]:
    """Work function: deletes, writes the ledger, returns counts by outcome."""
    store = target.open()
    for chunk in chunks:
        yield _delete_chunk(store, folders, chunk)


def _delete_chunk(store: ObjectStore, folders: LedgerFolders, chunk: Chunk) -> pa.RecordBatch:
    deadline = write_intent(store, folders, chunk)
    if not isinstance(deadline, Deadline):
        return deadline
    rows = read_mark(store.read(chunk.part)).slice(chunk.start, chunk.rows)
    addresses = rows.column("address").to_pylist()
    sizes = [size or 0 for size in rows.column("size_bytes").to_pylist()]
    outcomes = _delete_candidates(store, addresses, chunk, deadline)
    write_outcomes(store, folders, chunk, addresses, sizes, outcomes)
    return outcome_counts(chunk, add_up(addresses, sizes, outcomes))


def write_intent(
    store: ObjectStore, folders: LedgerFolders, chunk: Chunk
) -> Deadline | pa.RecordBatch:
    """Make durable what is about to be deleted, and tell by the store's time of that how long it may go on.

    Where nothing may be deleted, the chunk's result says why.
    """
    key = own_name(folders.ledger, chunk.name, ".intent.json")
    intent = {"part": chunk.part, "start": chunk.start, "rows": chunk.rows}
    deadline, why_not = write_and_time(
        store, key, json.dumps(intent).encode(), chunk.not_after, chunk.clock_skew
    )
    if deadline is None:
        return outcome_counts(chunk, {CLOCK_OFF: (chunk.rows, 0, why_not)})
    if deadline.seconds_left() <= 0:
        # Not even read: the re-verification that allowed it is too old, and the driver must ask again.
        return outcome_counts(chunk, {NOT_TRIED: (chunk.rows, 0, "")})
    return deadline


def _delete_candidates(
    store: ObjectStore, addresses: Sequence[str], chunk: Chunk, deadline: Deadline
) -> list[tuple[str, str]]:
    # The last look at each key: whatever the plan says, nothing foreign is deleted.
    allowed = [a for a in addresses if is_candidate(a, root_names=chunk.root_names)]
    results = {o.key: o for o in store.delete_many(allowed, seconds_left=deadline.seconds_left)}
    outcomes: list[tuple[str, str]] = []
    for address in addresses:
        result = results.get(address)
        if result is None:
            outcomes.append((PROTECTED, "not a name that lakeFS gives to data"))
        else:
            outcomes.append((OUTCOME_OF[result.status], result.detail or ""))
    return outcomes


def write_outcomes(
    store: ObjectStore,
    folders: LedgerFolders,
    chunk: Chunk,
    addresses: Sequence[str],
    sizes: Sequence[int],
    outcomes: Sequence[tuple[str, str]],
) -> None:
    """Make the outcome of every key durable: what is gone among the events, the rest in the ledger."""
    at = _now()
    rows = [
        {"address": a, "size_bytes": s, "outcome": o, "detail": d, "at": at}
        for a, s, (o, d) in zip(addresses, sizes, outcomes, strict=True)
    ]
    done = [row for row in rows if row["outcome"] in DONE]
    rest = [row for row in rows if row["outcome"] not in DONE]
    for folder, some in ((folders.deleted, done), (folders.ledger, rest)):
        if some:
            writer = PartWriter(store, folder, chunk.name, OUTCOME_SCHEMA)
            writer.add(pa.RecordBatch.from_pylist(some, schema=OUTCOME_SCHEMA))
            writer.close()


def add_up(
    addresses: Sequence[str], sizes: Sequence[int], outcomes: Sequence[tuple[str, str]]
) -> dict[str, tuple[int, int, str]]:
    """Objects, bytes and an example for each outcome."""
    totals: dict[str, tuple[int, int, str]] = {}
    for address, size, (outcome, _) in zip(addresses, sizes, outcomes, strict=True):
        objects, total, example = totals.get(outcome, (0, 0, address))
        totals[outcome] = (objects + 1, total + size, example)
    return totals


def outcome_counts(chunk: Chunk, totals: dict[str, tuple[int, int, str]]) -> pa.RecordBatch:
    """A chunk's result: outcome → objects, bytes, an example."""
    return pa.RecordBatch.from_pylist(
        [
            {"chunk": chunk.name, "outcome": o, "objects": n, "bytes": b, "example": e}
            for o, (n, b, e) in totals.items()
        ],
        schema=DELETED_SCHEMA,
    )


def _now() -> datetime:
    return datetime.now(UTC)
