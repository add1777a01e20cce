"""Rows of an inventory: whose objects they are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakesweep.collector.inventory.rows import InventoryRows
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.inventory_files import INVENTORY_ROWS, Layout
from lakesweep.storage import StorageOptions


@pytest.mark.parametrize("has_bucket_column", [True, False])
def test_a_row_without_its_bucket_is_doubt_where_others_have_one(has_bucket_column: bool) -> None:
    """Its key may be one of another bucket, and an object behind it that is alive here."""
    place = Location.parse("mem://bucket/ns")
    rows = InventoryRows(
        "mem://list", Layout("parquet"), place, StorageOptions(), has_bucket_column, False
    )
    at = datetime(2026, 1, 10, tzinfo=UTC)
    row = {"key": "ns/a", "size": 1, "last_modified": at, "is_current": True}
    batch = pa.RecordBatch.from_pylist([row], schema=INVENTORY_ROWS)
    if has_bucket_column:
        with pytest.raises(UnsafeToSweepError, match="not every row names its bucket"):
            rows._page(batch, Counter())
    else:
        assert rows._page(batch, Counter()).column("key").to_pylist() == ["a"]
