"""The rows of files that may be garbage, as the judge sees them. Executors load this file, so it knows of no client."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.columns import Mask
from lakesweep.collector.nessie import candidates as cand
from lakesweep.collector.nessie import references as refs
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.protection import DROPPED_TABLE
from lakesweep.engine.cells import Hashes
from lakesweep.formats.hashing import hash_addresses


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of files, by their URIs. They meet references by the hash of their folded name: two names that fold to one
    can only make garbage look live."""

    schema = cand.ROW_SCHEMA
    reference_counts = refs.COUNTS_SCHEMA
    candidate_counts = cand.COUNTS_SCHEMA
    name = "uri"

    def hashes(self, rows: pa.Table) -> Hashes:
        hashes: Hashes = rows.column("hash").to_numpy()
        return hashes

    def identities(self, rows: pa.Table, hashes: Hashes) -> Hashes:
        """By the exact name: base locations may overlap in ways that their names do not show."""
        return hash_addresses(rows.column("uri").combine_chunks())

    def protections(self, rows: pa.Table, is_held: Mask) -> pa.Array:
        words = rows.column("protection").combine_chunks()
        return pc.if_else(pa.array(is_held), pa.scalar(DROPPED_TABLE), words)

    def written(self, rows: pa.Table, is_expired: Mask) -> pa.Table:
        return rows.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
