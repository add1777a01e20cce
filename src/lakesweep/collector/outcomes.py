"""What became of rows that tasks looked at: counted by outcome, and written into parts by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from lakesweep.collector.parts import PARTS, Part, parts_told, sum_of, written_parts
from lakesweep.domain.verdicts import Tally
from lakesweep.storage import ObjectStore

OUTCOMES_SCHEMA = pa.schema(
    [
        pa.field("outcome", pa.string()),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("example", pa.string()),
        pa.field("written", PARTS),  # the rows with this outcome
    ]
)


def write_outcome(
    store: ObjectStore, folder: str, outcome: str, rows: pa.Table, *, stem: str, example: str = ""
) -> dict[str, object]:
    """Write the rows that have this outcome into parts; returns a row of `OUTCOMES_SCHEMA` that counts them."""
    return {
        "outcome": outcome,
        "objects": rows.num_rows,
        "bytes": sum_of(rows, "size_bytes"),
        "example": example,
        "written": written_parts(store, folder, stem, rows),
    }


@dataclass(slots=True)
class Outcomes:
    """Objects and bytes by outcome, one example of each, and the parts that hold the rows."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    examples: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, told: Iterable[Mapping[str, Any]]) -> Self:
        """The sums of what tasks returned, in rows of `OUTCOMES_SCHEMA`."""
        found = cls()
        for row in told:
            found.add(row["outcome"], Tally(row["objects"], row["bytes"]), row["example"])
            found.parts[row["outcome"]] += parts_told(row["written"])
        return found

    def add(self, outcome: str, tally: Tally, example: str) -> None:
        """Count more objects of an outcome; the first example stays."""
        self.tallies[outcome] += tally
        self.examples.setdefault(outcome, example)

    def tally(self, *outcomes: str) -> Tally:
        """Objects and bytes of these outcomes."""
        return sum((self.tallies.get(outcome, Tally()) for outcome in outcomes), Tally())

    @property
    def objects(self) -> int:
        """Objects of all outcomes."""
        return sum(tally.objects for tally in self.tallies.values())
