"""Delete a chunk of an authorised part: intent first, then one outcome for each row."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from lakesweep.collector.ledger.deadline import Deadline, write_and_time
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.target import Target, own_name
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.formats.tables import read_mark
from lakesweep.progress import advance
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

# Outcomes that end a row's story, and those that a later try may change.
DELETED, ALREADY_GONE = "deleted", "already_gone"
DENIED, THROTTLED, FAILED, PROTECTED = "denied", "throttled", "failed", "protected"
NOT_TRIED = "not_tried"  # the authorisation had run out
CLOCK_OFF = "clock_off"  # not tried, on an executor whose clock is not the store's
CHANGED = "changed"  # another object than the planned one, so it was kept
DONE = frozenset({DELETED, ALREADY_GONE})
UNDONE = frozenset({DENIED, THROTTLED, FAILED, PROTECTED})  # tried, and still there

INTENT = ".intent.json"  # ends the name of the file that each attempt at a chunk begins with

Outcome = tuple[str, str]  # and a detail, or an empty text
_Total = tuple[int, int, str]  # objects, bytes, an example

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
) -> list[Chunk]:
    """The rows of these parts cut into chunks of at most `rows` rows, each with the time that it may be deleted until."""
    return [
        Chunk(part.key, start, min(rows, part.rows - start), not_after, clock_skew)
        for part in parts
        for start in range(0, part.rows, rows)
    ]


@dataclass(frozen=True, slots=True)
class LedgerFolders:
    """The folders that a sweep writes to: its ledger for intents and failures, and the events for deletions."""

    ledger: str
    deleted: str


SECONDS_PER_DELETE = 1e-4


class RowDeleter(Protocol):
    """How a catalog deletes rows of a plan. Small and picklable: it travels with each task."""

    name_column: ClassVar[str]  # names what a row is about
    seconds_per_row: ClassVar[float | None]  # about what a delete costs on one core

    @abstractmethod
    def why_not(self, name: str) -> str:
        """Why an object of this name must not be touched, whatever a plan says; empty where it may be."""

    def read(self, data: bytes, key: str) -> pa.Table:
        """The rows of a part: names, `size_bytes`, and what else the catalog needs."""

    def delete(
        self, store: ObjectStore, rows: pa.Table, chunk: str, deadline: Deadline
    ) -> list[Outcome]:
        """Look at each row for the last time, and delete it unless it is protected or the time has run out.

        `store` is our own folder. Every row has its outcome, in order.
        """


class KeyDeletion(RowDeleter, Protocol):
    """Deletes objects by their keys in the store of our own folder. A catalog says which names it may touch."""

    name_column: ClassVar[str] = "address"
    seconds_per_row: ClassVar[float | None] = SECONDS_PER_DELETE
    __slots__ = ()

    def read(self, data: bytes, key: str) -> pa.Table:
        """The rows of a part of a mark."""
        return read_mark(data)

    def delete(
        self, store: ObjectStore, rows: pa.Table, chunk: str, deadline: Deadline
    ) -> list[Outcome]:
        """Delete the rows whose names may be touched; the outcome of all others is `PROTECTED`."""
        # The last look at each key: whatever the plan says, nothing foreign is deleted.
        why_not = {key: self.why_not(key) for key in rows.column("address").to_pylist()}
        allowed = [key for key, why in why_not.items() if not why]
        done = store.delete_many(allowed, seconds_left=deadline.seconds_left)
        found = {o.key: (OUTCOME_OF[o.status], o.detail) for o in done}
        return [found.get(key, (PROTECTED, why_not[key])) for key in rows["address"].to_pylist()]


def delete_chunks(
    target: Target, folders: LedgerFolders, deleter: RowDeleter, chunks: Iterator[Chunk]
) -> Iterator[pa.RecordBatch]:
    """Work function: deletes, writes the ledger, returns counts by outcome."""
    store = target.open()
    for chunk in chunks:
        yield delete_chunk(store, folders, deleter, chunk)


def delete_chunk(
    store: ObjectStore, folders: LedgerFolders, deleter: RowDeleter, chunk: Chunk
) -> pa.RecordBatch:
    """Delete one chunk. What is about to go is durable before, and what became of it before it is counted."""
    intent = {"part": chunk.part, "start": chunk.start, "rows": chunk.rows}
    key, data = own_name(folders.ledger, chunk.name, INTENT), json.dumps(intent).encode()
    # The store's time of this write tells how long the chunk may be deleted.
    deadline, why_not = write_and_time(store, key, data, chunk.not_after, chunk.clock_skew)
    if deadline is None:
        return _outcome_counts(chunk, {CLOCK_OFF: (chunk.rows, 0, why_not)})
    if deadline.seconds_left() <= 0:
        # Not even read: the re-verification that allowed it is too old, and the driver must ask again.
        return _outcome_counts(chunk, {NOT_TRIED: (chunk.rows, 0, "")})
    rows = deleter.read(store.read(chunk.part), chunk.part).slice(chunk.start, chunk.rows)
    outcomes = deleter.delete(store, rows, chunk.name, deadline)
    names, sizes = (rows.column(c).to_pylist() for c in (deleter.name_column, "size_bytes"))
    at = datetime.now(UTC)
    told = [
        {"address": name, "size_bytes": size or 0, "outcome": outcome, "detail": detail, "at": at}
        for name, size, (outcome, detail) in zip(names, sizes, outcomes, strict=True)
    ]
    _write_outcomes(store, folders.deleted, chunk, [row for row in told if row["outcome"] in DONE])
    rest = [row for row in told if row["outcome"] not in DONE]
    _write_outcomes(store, folders.ledger, chunk, rest)
    totals: dict[str, _Total] = {}
    for row in told:
        objects, total, example = totals.get(row["outcome"], (0, 0, row["address"]))
        totals[row["outcome"]] = (objects + 1, total + row["size_bytes"], example)
    advance(len(told), sum(row["size_bytes"] for row in told))
    return _outcome_counts(chunk, totals)


def _write_outcomes(
    store: ObjectStore, folder: str, chunk: Chunk, rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        writer = PartWriter(store, folder, chunk.name, OUTCOME_SCHEMA)
        writer.add(pa.RecordBatch.from_pylist(rows, schema=OUTCOME_SCHEMA))
        writer.close()


def _outcome_counts(chunk: Chunk, totals: Mapping[str, _Total]) -> pa.RecordBatch:
    """What a task returns for a chunk: a row of `DELETED_SCHEMA` for each outcome."""
    rows = [
        {"chunk": chunk.name, "outcome": o, "objects": n, "bytes": b, "example": e}
        for o, (n, b, e) in totals.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=DELETED_SCHEMA)
