"""Ask the store how old candidates are that came without an age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.dating import (
    DATED_SCHEMA,
    DATED_VERDICTS,
    EXPIRED,
    OLD,
    date_parts,
)
from lakesweep.collector.parts import Part, parts_told
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError


@dataclass(frozen=True, slots=True)
class Dated:
    """Rows that came without an age, by what the store says of them: how many, in which parts, and the old as suspects."""

    tallies: dict[str, Tally]
    parts: dict[str, list[Part]]
    suspects: Suspects

    @property
    def old(self) -> list[Part]:
        """What may go, held by expired commits or not."""
        return [*self.parts[OLD], *self.parts[EXPIRED]]


def ask_ages(context: RunContext, undated: Sequence[Part], cutoff: datetime, folder: str) -> Dated:
    """Ask the store for the age of every row; those that are gone drop out."""
    tallies = {verdict: Tally() for verdict in DATED_VERDICTS}
    parts: dict[str, list[Part]] = {verdict: [] for verdict in DATED_VERDICTS}
    if not undated:
        return Dated(tallies, parts, Suspects())
    scatter = Scatter(
        [part.key for part in undated],
        partial(date_parts, context.target, folder, cutoff),
        DATED_SCHEMA,
        tasks_for(len(undated), context.engine.slots, at_most=context.parallelism.partitions),
    )
    rows = context.engine.collect(scatter).to_pylist()
    for row in rows:
        tallies[row["verdict"]] += Tally(row["objects"], row["bytes"])
        parts[row["verdict"]] += parts_told(row["written"])
    if sum(tally.objects for tally in tallies.values()) != sum(part.rows for part in undated):
        raise UnsafeToSweepError(
            f"Candidates of {context.name} were lost while their age was looked up. Nothing more was deleted. Run again.",
            kind="not-conserved",
        )
    return Dated(tallies, parts, Suspects.union(row["suspects"] for row in rows))
