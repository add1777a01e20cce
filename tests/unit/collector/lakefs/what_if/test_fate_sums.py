"""A what-if's account is refused where something was lost, doubled or cut on its way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.uncommitted import UncommittedList
from lakesweep.collector.lakefs.references import COUNTS_SCHEMA
from lakesweep.collector.lakefs.what_if.fate_sums import FateSums, add_up_fates
from lakesweep.collector.lakefs.what_if.fates import FATES_SCHEMA, TALLIES, Dimension, Fate
from lakesweep.collector.lakefs.what_if.kept_references import KEPT_COUNTS_SCHEMA, KeptRange
from lakesweep.collector.lakefs.what_if.listed_sizes import LISTED_COUNTS
from lakesweep.collector.listing import TaskPieces
from lakesweep.domain.commits import RangeId
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.cells import pack_stream
from lakesweep.errors import UnsafeToSweepError

RANGE = KeptRange(RangeId("r"), 2, 0, "")
LISTED: TaskPieces[str] = TaskPieces(0, ())
KEPT = {
    **{"item": RANGE.name, "promised": 2, "entries": 2, "outside": 0, "sent": 2},
    **{"root_names": 0, "folders": [""]},
}
COUNTED = {
    **{"item": LISTED.name, "rows": 2, "bytes": 30, "protected": 1, "protected_bytes": 5},
    "foreign_repository": 0,
}
TALLY = {"days": 0, "is_at_root": False}


def account(
    *, kept: dict[str, Any] = KEPT, listed: dict[str, Any] = COUNTED, live: int = 1, **sums: int
) -> FateSums:
    """Two listed objects: one live, one dated, as a partition tells of them."""
    tallies = [
        {**TALLY, "dimension": Dimension.FATE, "group": Fate.LIVE, "objects": live, "bytes": 10},
        {**TALLY, "dimension": Dimension.FATE, "group": Fate.DATED, "objects": 1, "bytes": 20},
        {
            **TALLY,
            "dimension": Dimension.QUESTION,
            "group": 0,
            "days": 3,
            "objects": 1,
            "bytes": 20,
        },
    ]

    def packed(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
        return pack_stream(pa.RecordBatch.from_pylist(rows, schema=schema))

    row = {
        "tallies": packed(tallies, TALLIES),
        "reference_counts": packed([], COUNTS_SCHEMA),
        "kept_counts": packed([kept], KEPT_COUNTS_SCHEMA),
        "listed_counts": packed([listed], LISTED_COUNTS),
        **{"live_references": 0, "kept_references": 2, "events": 0, "rows": 2, "row_bytes": 30},
        **sums,
    }
    met = pa.Table.from_pylist([row], schema=FATES_SCHEMA)
    staged = UncommittedList("run", "", (), 0, 0)
    return add_up_fates(met, [RANGE], [LISTED], staged, "repo", 1)


def test_what_adds_up_is_told() -> None:
    """Live and protected are kept, the other one by three days."""
    found = account()
    assert found.listed == Tally(3, 35)
    assert found.kept["live"] == Tally(1, 10)
    assert found.kept["protected"] == Tally(1, 5)
    assert found.by_question == [{3: Tally(1, 20)}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kept_references": 1}, "2 kept_references were sent, 1 came"),
        ({"live_references": 1}, "0 live_references were sent, 1 came"),
        ({"rows": 1}, "were listed"),
        ({"live": 2}, "one fate"),
        ({"kept": {**KEPT, "entries": 1}}, "promised 2 entries, 1 came"),
        ({"kept": {**KEPT, "sent": 1}, "kept_references": 1}, "1 were understood"),
        ({"kept": {**KEPT, "item": "kept:other"}}, "counted exactly once"),
        ({"listed": {**COUNTED, "item": "prefixes:1"}}, "counted exactly once"),
        ({"listed": {**COUNTED, "foreign_repository": 1}}, "Another repository"),
    ],
)
def test_a_number_that_disagrees_is_doubt(changes: dict[str, Any], said: str) -> None:
    """No figure is given that does not account for everything."""
    with pytest.raises(UnsafeToSweepError, match=said):
        account(**changes)
