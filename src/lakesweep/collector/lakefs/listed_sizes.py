"""List a namespace straight into cells: a hash, a size and a time for each object, and nothing written anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.candidates import candidate_cells, counts_schema
from lakesweep.collector.lakefs.list_prefixes import Prefix
from lakesweep.collector.parts import sum_of
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import (
    CANDIDATE_PATTERN,
    FOREIGN_REPOSITORY_PATTERN,
    ROOT_CANDIDATE_PATTERN,
)
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import ObjectStore

__all__ = ["LISTED_COUNTS", "LISTED_ROWS", "Prefixes", "list_sizes"]

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
_ROWS_TOGETHER = 50_000  # a pattern takes longer to build than a page of keys to be matched with it


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What one task lists."""

    number: int
    prefixes: tuple[Prefix, ...]
    rows: None = None
    bytes: None = None

    @property
    def name(self) -> str:
        return f"prefixes:{self.number}"


def list_sizes(
    target: Target, partitions: int, items: Iterator[Prefixes]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of LISTED_ROWS, and the counts of every item."""
    store = target.open()

    def read(item: Prefixes) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
        for page in _together(_pages(store, item.prefixes)):
            yield _rows(page)

    return candidate_cells(
        items,
        read,
        lambda rows: rows.column("hash").to_numpy(),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=LISTED_COUNTS,
    )


def _rows(page: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[str, int]]:
    """What lakeFS itself could have written, and what is said of the rest."""
    keys = page.column("key")
    is_candidate = pc.and_(
        pc.match_substring_regex(keys, CANDIDATE_PATTERN), pc.invert(page.column("is_odd"))
    )
    rest = page.filter(pc.invert(is_candidate))
    is_foreign = pc.match_substring_regex(rest.column("key"), FOREIGN_REPOSITORY_PATTERN)
    page = page.filter(is_candidate)
    keys = page.column("key").cast(pa.string())
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(hash_addresses(keys)),
            page.column("size").cast(pa.int64()),
            page.column("last_modified").cast(pa.timestamp("us", tz="UTC")),
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


def _pages(store: ObjectStore, prefixes: tuple[Prefix, ...]) -> Iterator[pa.RecordBatch]:
    for _, page in store.list_many([prefix.key for prefix in prefixes if prefix.recursive]):
        yield page
    for prefix in prefixes:
        if not prefix.recursive:
            yield store.list_folder(prefix.key).objects


def _together(pages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for page in pages:
        waiting.append(page)
        if sum(some.num_rows for some in waiting) >= _ROWS_TOGETHER:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)
