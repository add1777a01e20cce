"""The rows of a repository's candidates, as the judge sees them. Executors load this file, so it knows of no client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.row_format import Mask, RowFormat
from lakesweep.collector.lakefs import candidates as cand
from lakesweep.collector.lakefs import references as refs
from lakesweep.domain.addresses import (
    ROOT_CANDIDATE_PATTERN,
    ProtectedReason,
    candidate_pattern,
)
from lakesweep.domain.verdicts import Source
from lakesweep.formats.tables import MARK_SCHEMA

AT_ROOT = ProtectedReason.FOREIGN_FILE_AT_ROOT.value
_NOT_LAKEFS = "not a name that lakeFS gives to data"


@dataclass(frozen=True, slots=True)
class AddressRows(RowFormat):
    """Rows of addresses in the namespace. `root_names`: whether the repository's commits hold some at its root."""

    root_names: bool = False
    schema = cand.ROW_SCHEMA
    reference_counts = refs.COUNTS_SCHEMA
    candidate_counts = cand.COUNTS_SCHEMA

    def protections(self, rows: pa.Table, is_held: Mask) -> pa.Array:
        """Only what has the shape of a name that lakeFS gives may go, whatever a plan says."""
        addresses = rows.column("address").combine_chunks()
        may_go = pc.match_substring_regex(addresses, candidate_pattern(root_names=self.root_names))
        if pc.all(may_go).as_py():
            return pa.repeat(pa.scalar("", pa.string()), len(addresses))
        is_root = pc.match_substring_regex(addresses, ROOT_CANDIDATE_PATTERN)
        return pc.if_else(may_go, "", pc.if_else(is_root, AT_ROOT, _NOT_LAKEFS))

    def written(self, rows: pa.Table, is_expired: Mask) -> pa.Table:
        return pa.Table.from_arrays(
            [
                rows.column("address"),
                rows.column("size_bytes"),
                # Only a listing knows when the object was written; an entry's own time is its author's word.
                pc.if_else(
                    pc.equal(rows.column("source"), int(Source.COMMITTED)),
                    pa.scalar(None, pa.timestamp("us", tz="UTC")),
                    rows.column("last_modified"),
                ),
                pa.array(np.where(is_expired, "expired", "unreferenced"), pa.string()),
            ],
            schema=MARK_SCHEMA,
        )
