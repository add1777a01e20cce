"""List a namespace straight into cells: a hash, a size and a time for each object, and nothing written anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.candidates import candidate_cells, counts_schema
from lakesweep.collector.lakefs.listing import ListedNamespace
from lakesweep.collector.listing import TaskPieces, joined
from lakesweep.collector.parts import sum_of
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import FOREIGN_REPOSITORY_PATTERN, ROOT_CANDIDATE_PATTERN
from lakesweep.formats.hashing import hash_addresses

__all__ = ["LISTED_COUNTS", "LISTED_ROWS", "list_sizes"]

LISTED_ROWS = pa.schema(
    [
        pa.field("hash", pa.uint64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", tz="UTC")),
        pa.field("is_at_root", pa.bool_()),  # by its name; such may go in some repositories only
    ]
)
LISTED_COUNTS = counts_schema(
    pa.field("protected", pa.int64()),
    pa.field("protected_bytes", pa.int64()),
    pa.field("foreign_repository", pa.int64()),
)
_BYTES_PER_ROW = 30


def list_sizes(
    target: Target, partitions: int, items: Iterator[TaskPieces[str]]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of LISTED_ROWS, and the counts of every item."""
    namespace = ListedNamespace(target)

    def read(item: TaskPieces[str]) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
        for page in joined(namespace.pages(item.pieces)):
            yield _rows(page, namespace.is_candidate(page))

    return candidate_cells(
        items,
        read,
        lambda rows: rows.column("hash").to_numpy(),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=LISTED_COUNTS,
    )


def _rows(page: pa.RecordBatch, is_candidate: pa.Array) -> tuple[pa.RecordBatch, Mapping[str, int]]:
    """What lakeFS itself could have written, and what is said of the rest."""
    rest = page.filter(pc.invert(is_candidate))
    is_foreign = pc.match_substring_regex(rest.column("key"), FOREIGN_REPOSITORY_PATTERN)
    page = page.filter(is_candidate)
    keys = page.column("key")
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(hash_addresses(keys)),
            page.column("size"),
            page.column("last_modified"),
            pc.match_substring_regex(keys, ROOT_CANDIDATE_PATTERN),
        ],
        schema=LISTED_ROWS,
    )
    said = {
        "protected": rest.num_rows,
        "protected_bytes": sum_of(rest, "size"),
        "foreign_repository": int(np.count_nonzero(is_foreign.to_numpy(zero_copy_only=False))),
    }
    return rows, said
