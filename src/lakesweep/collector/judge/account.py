"""What the driver does with the rows of a meeting: sums, streams of counts, and doubt when they disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from lakesweep.errors import UnsafeToSweepError


def sums_of(met: pa.Table) -> dict[str, int]:
    """The sum of every column of integers over all partitions, by the column's name."""
    return {
        field.name: sum(met.column(field.name).to_pylist())
        for field in met.schema
        if field.type == pa.int64()
    }


def counts_in(met: pa.Table, column: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of counts that tasks sent along with their cells, unpacked from a column of Arrow streams."""
    rows: list[dict[str, Any]] = []
    for blob in met.column(column).to_pylist():
        with pa.ipc.open_stream(blob) as reader:
            for batch in reader:
                rows.extend(batch.cast(schema).to_pylist())
    return rows


def check_once(what: str, seen: Iterable[str], wanted: Iterable[str]) -> None:
    """Refuse unless every wanted item was seen exactly once, and no other."""
    missing = Counter(wanted)
    missing.subtract(Counter(seen))
    wrong = [name for name, left in missing.items() if left]
    if wrong:
        raise doubt(
            f"{len(wrong)} {what} items were not counted exactly once, the first: {wrong[0]}"
        )


def doubt(what: str) -> UnsafeToSweepError:
    """The error for numbers that disagree."""
    return UnsafeToSweepError(
        f"The numbers do not add up: {what}. Nothing was deleted. Run again; if it happens twice, report it.",
        kind="not-conserved",
    )
