"""The rows of files that may be garbage: read out of parts into cells, and as the judge sees them.

Executors load this file, so it knows of no client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from lakesweep.collector.judge.row_format import Mask
from lakesweep.collector.nessie import references as refs
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.protection import DROPPED_TABLE, NOT_UNDERSTOOD, FolderIndex
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.engine.cells import Hashes
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import ObjectStore

_BYTES_PER_ROW = 200


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of files, by their URIs. They meet references by the hash of their folded name: two names that fold to one
    can only make garbage look live."""

    schema = pa.schema(
        [
            *FILE_SCHEMA,
            pa.field("source", pa.int8(), nullable=False),
            pa.field("hash", pa.uint64(), nullable=False),
            pa.field("protection", pa.string(), nullable=False),
        ]
    )
    reference_counts = refs.COUNTS_SCHEMA
    candidate_counts = counts_schema()
    name = "uri"

    def hashes(self, rows: pa.Table) -> Hashes:
        hashes: Hashes = rows.column("hash").to_numpy()
        return hashes

    def identities(self, rows: pa.Table, hashes: Hashes) -> Hashes:
        """Hashes of the exact URIs: base locations may overlap in ways that their names do not show."""
        return hash_addresses(rows.column("uri").combine_chunks())

    def protections(self, rows: pa.Table, is_held: Mask) -> pa.Array:
        labels = rows.column("protection").combine_chunks()
        return pc.if_else(pa.array(is_held), pa.scalar(DROPPED_TABLE), labels)

    def written(self, rows: pa.Table, is_expired: Mask) -> pa.Table:
        return rows.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)


def read_candidates(
    own_folder: Target, protection: FolderIndex, partitions: int, parts: Iterator[CandidatePart]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of rows (of a listing's parts, a plan's, deferred ones), and one COUNTS cell per task."""
    return candidate_cells(
        parts,
        partial(_rows_of, own_folder.open(), protection),
        lambda rows: rows.column("hash").to_numpy(),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=FileRows.candidate_counts,
    )


def _rows_of(
    store: ObjectStore, protection: FolderIndex, part: CandidatePart
) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
    for batch in read_part(read_needed(store, part.key), FILE_SCHEMA, part.key):
        uris = batch.column("uri")
        hashes, is_sound = hash_listed_files(uris)
        labels = protection.labels_of(uris, batch.column("last_modified"))
        if not is_sound.all():
            labels = pc.if_else(pa.array(is_sound), labels, pa.scalar(NOT_UNDERSTOOD))
        source = pa.array(np.full(batch.num_rows, part.source, dtype=np.int8))
        columns = [*batch.columns, source, pa.array(hashes), labels]
        yield pa.RecordBatch.from_arrays(columns, schema=FileRows.schema), {}
