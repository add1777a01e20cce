"""Read files that may be garbage (a listing's parts, a plan's, deferred ones) and emit them as cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.candidates import (
    CandidatePart,
    candidate_cells,
    counts_schema,
    read_needed,
)
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.protection import NOT_UNDERSTOOD, FolderIndex
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.storage import ObjectStore

ROW_SCHEMA = pa.schema(
    [
        *FILE_SCHEMA,
        pa.field("source", pa.int8(), nullable=False),
        pa.field("hash", pa.uint64(), nullable=False),
        pa.field("protection", pa.string(), nullable=False),
    ]
)
COUNTS_SCHEMA = counts_schema()

_BYTES_PER_ROW = 200


def read_candidates(
    work: Target, protection: FolderIndex, partitions: int, parts: Iterator[CandidatePart]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of rows, and one COUNTS cell per task with a row per part."""
    return candidate_cells(
        parts,
        partial(_rows_of, work.open(), protection),
        lambda rows: rows.column("hash").to_numpy(),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=COUNTS_SCHEMA,
    )


def _rows_of(
    store: ObjectStore, protection: FolderIndex, part: CandidatePart
) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
    for batch in read_part(read_needed(store, part.key), FILE_SCHEMA, part.key):
        uris = batch.column("uri")
        hashes, is_sound = hash_listed_files(uris)
        words = protection.words_for(uris, batch.column("last_modified"))
        if not is_sound.all():
            words = pc.if_else(pa.array(is_sound), words, pa.scalar(NOT_UNDERSTOOD))
        source = pa.array(np.full(batch.num_rows, part.source, dtype=np.int8))
        columns = [*batch.columns, source, pa.array(hashes), words]
        yield pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA), {}
