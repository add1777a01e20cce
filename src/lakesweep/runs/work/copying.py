"""Copy the objects that a mark names from one store to another, and verify each copy by size and content."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.domain.addresses import is_candidate
from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.runs.work.parts import PartWriter, sum_of
from lakesweep.runs.work.target import Target
from lakesweep.storage import ObjectInfo, ObjectStore

logger = logging.getLogger(__name__)

COPIED_SCHEMA = pa.schema(
    [
        pa.field("chunk", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("example", pa.string()),
        pa.field(
            "written", pa.string()
        ),  # parts of the rows with this outcome: "key rows bytes" lines
    ]
)

COPIED, ALREADY_THERE, MISSING, FAILED, PROTECTED = (
    "copied",
    "already_there",
    "missing",
    "failed",
    "protected",
)
VERIFIED = frozenset({COPIED, ALREADY_THERE})

_IN_FLIGHT = 16
# The etag of an object written in one piece; anything else (parts, encryption, other stores) says nothing of content.
_MD5 = re.compile(r'"?[0-9a-f]{32}"?')


@dataclass(frozen=True, slots=True)
class CopyChunk:
    """Some rows of a part of a mark."""

    part: str
    start: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.part}:{self.start}"


@dataclass(frozen=True, slots=True)
class CopyRoad:
    """From where to where. `marks` holds the parts to read; lists of what was verified go to `folder` in `work`."""

    marks: Target
    source: Target
    target: Target
    work: Target
    folder: str


def copy_chunks(road: CopyRoad, chunks: Iterator[CopyChunk]) -> Iterator[pa.RecordBatch]:
    """Work function: copies, verifies, writes what was verified into parts, returns counts by outcome."""
    marks, source, target = road.marks.open(), road.source.open(), road.target.open()
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        for chunk in chunks:
            rows = read_mark(marks.read(chunk.part)).slice(chunk.start, chunk.rows)
            addresses = rows.column("address").to_pylist()
            outcomes = list(pool.map(lambda a: copy_one(source, target, a), addresses))
            yield _summary(road, chunk, rows, outcomes)


def copy_one(source: ObjectStore, target: ObjectStore, address: str) -> tuple[str, str]:
    """Copy one object under the same address, unless the same content is there already."""
    if not is_candidate(address):
        return PROTECTED, "not a name that lakeFS gives to data"
    try:
        original = source.stat(address)
    except ObjectNotFoundError:
        return MISSING, "not in the source"
    except StorageError as error:
        return FAILED, error.message
    try:
        there = next(iter(target.stat_many([address])))[1]
        if there is not None:
            if _is_same(source, original, target, there):
                return ALREADY_THERE, ""
            # Addresses are never written twice, so other content under this name is not ours to replace.
            return FAILED, "other content is there under this address"
    except StorageError as error:
        return FAILED, error.message
    try:
        target.copy_from(source, address, address)
        if _is_same(source, original, target, target.stat(address)):
            return COPIED, ""
        why = "the copy differs from the original"
    except StorageError as error:
        why = error.message
    _remove_if_bad(source, original, target)
    return FAILED, why


def _remove_if_bad(source: ObjectStore, original: ObjectInfo, target: ObjectStore) -> None:
    """There was nothing before, so what differs is ours, and would stand in the way of the next try.

    Only what is seen to differ goes: another attempt of the same task may have made a good copy meanwhile.
    """
    try:
        there = next(iter(target.stat_many([original.key])))[1]
        if there is not None and not _is_same(source, original, target, there):
            target.delete_many([original.key])
    except StorageError as error:
        logger.warning("a copy of %s that failed was left as it is: %s", original.key, error)


def _is_same(
    source: ObjectStore, original: ObjectInfo, target: ObjectStore, copy: ObjectInfo
) -> bool:
    if original.size != copy.size:
        return False
    etags = (original.etag or "", copy.etag or "")
    if all(_MD5.fullmatch(etag) for etag in etags) and source.root.kind == target.root.kind:
        return etags[0].strip('"') == etags[1].strip('"')
    return _digest(source, original.key) == _digest(target, copy.key)


def _digest(store: ObjectStore, key: str) -> bytes:
    digest = hashlib.blake2b()
    for chunk in store.read_stream(key):
        digest.update(chunk)
    return digest.digest()


def _summary(
    road: CopyRoad, chunk: CopyChunk, rows: pa.Table, outcomes: list[tuple[str, str]]
) -> pa.RecordBatch:
    addresses = rows.column("address").to_pylist()
    summary = []
    for outcome in dict.fromkeys(outcome for outcome, _ in outcomes):
        mine = [number for number, (found, _) in enumerate(outcomes) if found == outcome]
        some = rows.take(pa.array(mine, pa.int64()))
        summary.append(
            {
                "chunk": chunk.name,
                "outcome": outcome,
                "objects": len(mine),
                "bytes": sum_of(some, "size_bytes"),
                "example": f"{addresses[mine[0]]} {outcomes[mine[0]][1]}".strip(),
                "written": _write(road, outcome, some),
            }
        )
    return pa.RecordBatch.from_pylist(summary, schema=COPIED_SCHEMA)


def _write(road: CopyRoad, outcome: str, rows: pa.Table) -> str:
    writer = PartWriter(road.work.open(), road.folder, outcome, MARK_SCHEMA)
    for batch in rows.to_batches():
        writer.add(batch)
    return "\n".join(f"{p.key} {p.rows} {p.bytes}" for p in writer.close())
