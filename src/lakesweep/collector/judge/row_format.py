"""What the judge asks of a catalog about the rows of its candidates."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.collector.judge import candidates as cand
from lakesweep.collector.judge import references as refs
from lakesweep.engine.cells import Hashes
from lakesweep.formats.hashing import hash_addresses

Mask = npt.NDArray[np.bool_]


class RowFormat(Protocol):
    """What a catalog knows of its candidates' rows. Picklable: it travels with the judge.

    Rows have `size_bytes`, `last_modified` and `source` among their columns. By default, in a class with this one as its base,
    an object is known by the key in the column `name`, and sources send no counts but the judge's own.
    """

    schema: pa.Schema  # of a candidate
    reference_counts: pa.Schema = refs.counts_schema()
    candidate_counts: pa.Schema = cand.counts_schema()
    name: str = "address"  # the column with an object's name

    def hashes(self, rows: pa.Table) -> Hashes:
        """The hash of each row: a row is live if a live reference has this hash."""
        return hash_addresses(rows.column(self.name).combine_chunks())

    def identities(self, rows: pa.Table, hashes: Hashes) -> Hashes:
        """A hash for each row by which an object that comes twice is noticed; mostly the hash of its name."""
        return hashes

    def protections(self, rows: pa.Table, is_held: Mask) -> pa.Array:
        """Why each row must stay, in words, empty where it may go. `is_held`: a protecting reference names it."""
        ...

    def written(self, rows: pa.Table, is_expired: Mask) -> pa.Table:
        """The rows with the columns that a plan's parts have; `is_expired`: an expired commit holds the object."""
        ...
