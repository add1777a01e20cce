"""Parts of a mark in the order of their addresses, so that whoever looks objects up reads a page for a thousand of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lakesweep.collector.copies.order_rows import (
    ORDERED_SCHEMA,
    SAMPLE_SCHEMA,
    InOrder,
    cut_by_address,
    sample_addresses,
)
from lakesweep.collector.judge.account import doubt
from lakesweep.collector.parts import Part, parts_told
from lakesweep.collector.target import Target
from lakesweep.engine.tasks import CELL_SCHEMA, Engine, Scatter, tasks_for

# Fewer are looked up one by one as quickly.
_FEWEST_ROWS = 1_000
_ROWS_PER_PARTITION = 200_000
# So many samples for each partition make them about equal.
_SAMPLES_PER_PARTITION = 50
_MOST_TASKS = 200


def in_order(
    engine: Engine, marks: Target, work: Target, folder: str, parts: Sequence[Part]
) -> tuple[Target, Sequence[Part]]:
    """The rows of a mark in parts that follow each other, and where those are: in `folder` of `work`.

    Too few to matter stay where they are.
    """
    asked = sum(part.rows for part in parts)
    if asked < _FEWEST_ROWS:
        return marks, parts
    write = InOrder(work, folder)
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
    return work, ordered


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
