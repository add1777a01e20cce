"""Read files that may be garbage (a listing's parts, a plan's, deferred ones) and emit them as cells."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie.list_folders import FILE_SCHEMA
from lakesweep.collector.nessie.protection import NOT_UNDERSTOOD, FolderIndex
from lakesweep.collector.parts import Part, read_part, sum_of
from lakesweep.collector.target import Target
from lakesweep.engine.cells import flush_threshold, pack_rows, single_cell
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.file_hashes import hash_listed_files

# Kinds of candidate cells.
ROWS, COUNTS = 1, 2

ROW_SCHEMA = pa.schema(
    [
        *FILE_SCHEMA,
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("protection", pa.string(), nullable=False),
    ]
)

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)

_BYTES_PER_ROW = 200


def read_candidates(
    work: Target, protection: FolderIndex, partitions: int, parts: Iterator[Part]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of rows, and one COUNTS cell per task with a row per part."""
    store = work.open()
    limit = flush_threshold(partitions, _BYTES_PER_ROW)
    waiting: list[pa.RecordBatch] = []
    rows_waiting = 0
    counts: list[dict[str, object]] = []
    for part in parts:
        rows = size = 0
        try:
            data = store.read(part.key)
        except ObjectNotFoundError as error:
            raise UnsafeToSweepError(
                f"A file that this run needs is missing: {error.message} Nothing was deleted. Run again.",
                kind="candidates-missing",
            ) from error
        for batch in read_part(data, FILE_SCHEMA, part.key):
            rows += batch.num_rows
            size += sum_of(batch, "size_bytes")
            waiting.append(_rows(batch, protection))
            rows_waiting += batch.num_rows
            if rows_waiting >= limit:
                yield _packed(waiting, partitions)
                waiting, rows_waiting = [], 0
        counts.append({"item": part.key, "rows": rows, "bytes": size})
    if rows_waiting:
        yield _packed(waiting, partitions)
    if counts:
        home = len(counts) % partitions
        yield single_cell(COUNTS, home, pa.RecordBatch.from_pylist(counts, schema=COUNTS_SCHEMA))


def _rows(batch: pa.RecordBatch, protection: FolderIndex) -> pa.RecordBatch:
    uris = batch.column("uri")
    hashes, is_sound = hash_listed_files(uris)
    words = protection.words_for(uris, batch.column("last_modified"))
    if not is_sound.all():
        words = pc.if_else(pa.array(is_sound), words, pa.scalar(NOT_UNDERSTOOD))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(hashes), words], schema=ROW_SCHEMA)


def _packed(batches: list[pa.RecordBatch], partitions: int) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches, schema=ROW_SCHEMA).combine_chunks().to_batches()[0]
    return pack_rows(ROWS, rows, rows.column("hash").to_numpy(), partitions)
