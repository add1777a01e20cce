"""Ask the store how old candidates are that came without an age: entries of commits, saved lists, marks of addresses only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakesweep.collector.copies.lookups import look_up
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, Outcomes, write_outcome
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import is_old_enough
from lakesweep.errors import StorageError, UnsafeToSweepError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import Crew

_IN_FLIGHT = 32
_SECONDS_PER_ROW = 0.001

# Old rows are of two kinds: those that an expired commit holds, and the others.
OLD, EXPIRED, YOUNG, ABSENT = _OUTCOMES = ("old", "expired", "young", "absent")
_STEMS = {OLD: "garbage", EXPIRED: "garbage"}

# `suspects` are these rows, as Suspects; of the old alone.
DATED_SCHEMA = OUTCOMES_SCHEMA.append(pa.field("suspects", pa.binary()))


@dataclass(slots=True)
class Dated(Outcomes):
    """Rows that came without an age, by what the store says of them, and the old ones as suspects."""

    suspects: Suspects = field(default_factory=Suspects)

    @property
    def old(self) -> list[Part]:
        """The parts of rows that are old enough to go, whether expired commits hold them or no commit does."""
        return [*self.parts[OLD], *self.parts[EXPIRED]]


def ask_ages(resources: Resources, undated: Sequence[Part], cutoff: datetime, folder: str) -> Dated:
    """Ask the store for the age of every row; those that are gone drop out."""
    work = partial(date_parts, resources.target, folder, cutoff)
    seconds = tally_of(undated).objects * _SECONDS_PER_ROW
    rows = resources.run_on_parts(undated, work, DATED_SCHEMA, seconds)
    dated = Dated.of(rows)
    dated.suspects = Suspects.union(row["suspects"] for row in rows)
    if dated.objects != tally_of(undated).objects:
        raise UnsafeToSweepError(
            f"Candidates of {resources.name} were lost while their age was looked up. Nothing more was deleted. Run again.",
            kind="not-conserved",
        )
    return dated


def date_parts(
    target: Target, folder: str, cutoff: datetime, parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: splits each part by the store's own times into old, young, and absent rows."""
    store = target.open()
    for part in parts:
        known = {row["address"]: row for row in read_mark(store.read(part)).to_pylist()}
        split: dict[str, list[dict[str, object]]] = {outcome: [] for outcome in _OUTCOMES}
        with Crew(_IN_FLIGHT) as crew:
            looked_up = look_up(store, list(known), crew, trust_absence=False)
        for address, info in looked_up.items():
            if isinstance(info, StorageError):
                raise info
            row = known[address]
            if info is None:
                split[ABSENT].append(row | {"size_bytes": row["size_bytes"] or 0})
                continue
            is_old = is_old_enough(info.last_modified, cutoff)
            old = EXPIRED if row["reason"] == "expired" else OLD
            dated = {"size_bytes": info.size, "last_modified": info.last_modified}
            split[old if is_old else YOUNG].append(row | dated)
        tables = {o: pa.Table.from_pylist(rows, schema=MARK_SCHEMA) for o, rows in split.items()}
        yield pa.RecordBatch.from_pylist(
            [
                write_outcome(store, folder, o, rows, stem=_STEMS.get(o, o))
                | {"suspects": _suspects(o, rows).encode()}
                for o, rows in tables.items()
            ],
            schema=DATED_SCHEMA,
        )


def _suspects(outcome: str, rows: pa.Table) -> Suspects:
    if outcome not in (OLD, EXPIRED):
        return Suspects()
    sizes = rows.column("size_bytes") if outcome == OLD else pa.array([], pa.int64())
    return Suspects.of(hash_addresses(rows.column("address")), sizes)
