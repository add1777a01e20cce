"""Packed cells: what goes in by partition comes out whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.engine.cells import (
    pack_hashes,
    pack_rows,
    partition_of,
    single_cell,
    unpack_hashes,
    unpack_rows,
)
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter, tasks_for

uint64s = st.lists(st.integers(0, 2**64 - 1), max_size=200)


@given(uint64s, st.integers(1, 300))
def test_every_hash_lands_in_exactly_one_partition_and_comes_back(
    values: list[int], partitions: int
) -> None:
    """Packing loses and invents nothing, whatever the number of partitions."""
    hashes = np.array(values, dtype=np.uint64)
    cells = pa.Table.from_batches([pack_hashes(7, hashes, partitions)], schema=CELL_SCHEMA)
    assert sorted(unpack_hashes(cells, 7).tolist()) == sorted(values)
    assert all(0 <= p < partitions for p in cells.column("partition").to_pylist())
    for partition in set(cells.column("partition").to_pylist()):
        own = cells.filter(pa.compute.equal(cells.column("partition"), partition))
        assert set(partition_of(unpack_hashes(own, 7), partitions).tolist()) == {partition}


@given(uint64s, st.integers(1, 50))
def test_rows_travel_with_their_hash(values: list[int], partitions: int) -> None:
    """A row comes out in the partition of its hash, unchanged."""
    hashes = np.array(values, dtype=np.uint64)
    schema = pa.schema([pa.field("address", pa.string()), pa.field("hash", pa.uint64())])
    rows = pa.RecordBatch.from_arrays(
        [pa.array([str(v) for v in values], pa.string()), pa.array(hashes)], schema=schema
    )
    cells = pa.Table.from_batches([pack_rows(3, rows, hashes, partitions)], schema=CELL_SCHEMA)
    out = unpack_rows(cells, 3, schema)
    assert sorted(out.column("address").to_pylist()) == sorted(str(v) for v in values)
    assert unpack_rows(cells, 4, schema).num_rows == 0


def test_kinds_are_kept_apart() -> None:
    """Cells of another kind are never read as ours."""
    hashes = np.array([1, 2**63], dtype=np.uint64)
    cells = pa.Table.from_batches(
        [pack_hashes(1, hashes, 4), pack_hashes(2, hashes[:1], 4)], schema=CELL_SCHEMA
    )
    assert len(unpack_hashes(cells, 1)) == 2
    assert unpack_hashes(cells, 2).tolist() == [1]


def test_counts_travel_in_a_cell_of_their_own() -> None:
    """A task's counts go to the partition that the task names."""
    schema = pa.schema([pa.field("n", pa.int64())])
    rows = pa.RecordBatch.from_pydict({"n": [5]}, schema=schema)
    cells = pa.Table.from_batches([single_cell(9, 3, rows)], schema=CELL_SCHEMA)
    assert cells.column("partition").to_pylist() == [3]
    assert unpack_rows(cells, 9, schema).to_pylist() == [{"n": 5}]


def test_a_scatter_has_at_least_one_task() -> None:
    """Zero tasks would do nothing and look like nothing found."""
    with pytest.raises(ValueError, match="at least one task"):
        Scatter([], lambda items: iter(()), CELL_SCHEMA, 0)
    assert tasks_for(0, 2, at_most=50) == 1
    assert tasks_for(1000, 2, at_most=50) == 4
    assert tasks_for(1000, 2, at_most=50, waves=4) == 8
    assert tasks_for(1000, 100, at_most=50) == 50
