"""Parts of a mark in the order of their addresses, so that whoever looks objects up reads a page for a thousand of them.

A meeting wrote the rows by hash, so neighbours in the store lie in different parts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.account import doubt
from lakesweep.collector.parts import PARTS, Part, parts_told, written_parts
from lakesweep.collector.target import Target
from lakesweep.engine.cells import single_cell, unpack_rows
from lakesweep.engine.tasks import CELL_SCHEMA, Engine, Scatter, tasks_for
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
# Fewer are looked up one by one as quickly.
_FEWEST_ROWS = 1_000
_ROWS_PER_PARTITION = 200_000
# So many samples for each partition make them about equal.
_SAMPLES_PER_PARTITION = 50
_MOST_TASKS = 200


def in_order(
    engine: Engine, marks: Target, own_folder: Target, folder: str, parts: Sequence[Part]
) -> tuple[Target, Sequence[Part]]:
    """The rows of a mark in parts that follow each other, and where those are: in `folder` of `own_folder`.

    Too few to matter stay where they are.
    """
    asked = sum(part.rows for part in parts)
    if asked < _FEWEST_ROWS:
        return marks, parts
    write = InOrder(own_folder, folder)
    if asked <= _ROWS_PER_PARTITION:
        # So few are in order before Spark has started.
        cells = cut_by_address(marks, (), (part.key for part in parts))
        met = write(pa.Table.from_batches(cells, CELL_SCHEMA), CELL_SCHEMA.empty_table())
    else:
        met = _met_by_address(engine, marks, parts, write)
    ordered = [
        part for row in met.sort_by("first").to_pylist() for part in parts_told(row["written"])
    ]
    came = sum(part.rows for part in ordered)
    if came != asked:
        raise doubt(f"{asked} rows of the mark were put in order, {came} came out")
    return own_folder, ordered


def _met_by_address(
    engine: Engine, marks: Target, parts: Sequence[Part], write: InOrder
) -> pa.Table:
    rows = sum(part.rows for part in parts)
    partitions = max(engine.slots, math.ceil(rows / _ROWS_PER_PARTITION))
    bounds = _bounds(engine, marks, parts, partitions)
    # A meeting has two sides, so half of the parts come from each.
    left, right = (
        Scatter(
            [part.key for part in side],
            partial(cut_by_address, marks, bounds),
            CELL_SCHEMA,
            tasks_for(len(side), engine.slots, at_most=_MOST_TASKS),
        )
        for side in (parts[::2], parts[1::2])
    )
    return engine.meet(left, right, write, ORDERED_SCHEMA, partitions)


def _bounds(engine: Engine, marks: Target, parts: Sequence[Part], partitions: int) -> list[str]:
    """Addresses that cut all rows into about equal partitions."""
    rows = sum(part.rows for part in parts)
    every = max(1, rows // (partitions * _SAMPLES_PER_PARTITION))
    scatter = Scatter(
        [part.key for part in parts],
        partial(sample_addresses, marks, every),
        SAMPLE_SCHEMA,
        tasks_for(len(parts), engine.slots, at_most=_MOST_TASKS),
    )
    samples = sorted(engine.collect(scatter).column("address").to_pylist())
    cuts = [number * len(samples) // partitions for number in range(1, partitions)]
    return [samples[cut] for cut in cuts] if samples else []


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
    """Writes the rows of one partition in the order of their addresses. Picklable: Spark calls it for each partition."""

    own_folder: Target
    folder: str

    def __call__(self, some: pa.Table, others: pa.Table) -> pa.Table:
        """Write one partition's rows; returns the parts that were written."""
        both = [unpack_rows(cells, _ROWS, MARK_SCHEMA) for cells in (some, others)]
        rows = _sorted(pa.concat_tables(both))
        row = {
            "first": pc.min(rows.column("address")).as_py(),
            "written": written_parts(self.own_folder.open(), self.folder, "ordered", rows),
        }
        return pa.Table.from_pylist([row], schema=ORDERED_SCHEMA)


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.take(pc.sort_indices(rows.column("address").combine_chunks()))
