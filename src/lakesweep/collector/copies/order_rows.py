"""Put the rows of a mark's parts in order: a meeting wrote them by hash, so neighbours in the store lie in different parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.parts import PARTS, written_parts
from lakesweep.collector.target import Target
from lakesweep.engine.cells import single_cell, unpack_rows
from lakesweep.formats.tables import MARK_SCHEMA, read_mark

SAMPLE_SCHEMA = pa.schema([pa.field("address", pa.string())])
ORDERED_SCHEMA = pa.schema(
    [
        pa.field("first", pa.string()),  # the smallest address of these parts
        pa.field("written", PARTS),  # in order
    ]
)

_ROWS = 1  # the only kind of cells here
_ROWS_PER_CELL = 100_000


def sample_addresses(marks: Target, every: int, parts: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: the first of every so many addresses."""
    store = marks.open()
    for part in parts:
        addresses = read_mark(store.read(part)).column("address")
        some = addresses.take(pa.array(np.arange(0, len(addresses), every)))
        yield pa.RecordBatch.from_arrays([some.combine_chunks()], schema=SAMPLE_SCHEMA)


def cut_by_address(
    marks: Target, bounds: Sequence[str], parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of rows, those below the first bound in partition 0, and so on."""
    store = marks.open()
    for part in parts:
        rows = _sorted(read_mark(store.read(part)))
        addresses = rows.column("address").combine_chunks()
        numbers = range(rows.num_rows)
        cuts = [bisect_left(numbers, bound, key=lambda n: addresses[n].as_py()) for bound in bounds]
        edges = [0, *cuts, rows.num_rows]
        for partition, (start, end) in enumerate(pairwise(edges)):
            its_rows = rows.slice(start, end - start).combine_chunks()
            for batch in its_rows.to_batches(max_chunksize=_ROWS_PER_CELL):
                yield single_cell(_ROWS, partition, batch)


@dataclass(frozen=True, slots=True)
class InOrder:
    """Writes one partition's rows in order. Picklable: it is the meeting function."""

    work: Target
    folder: str

    def __call__(self, some: pa.Table, others: pa.Table) -> pa.Table:
        """One partition's parts."""
        both = [unpack_rows(cells, _ROWS, MARK_SCHEMA) for cells in (some, others)]
        rows = _sorted(pa.concat_tables(both))
        row = {
            "first": pc.min(rows.column("address")).as_py(),
            "written": written_parts(self.work.open(), self.folder, "ordered", rows),
        }
        return pa.Table.from_pylist([row], schema=ORDERED_SCHEMA)


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.take(pc.sort_indices(rows.column("address").combine_chunks()))
