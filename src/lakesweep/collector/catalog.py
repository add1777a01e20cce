"""The port between the collector and a catalog: what the shared steps of a run ask, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Protocol

from lakesweep.collector.guards import BlastRadius, ClockReading
from lakesweep.collector.ledger.deleting import RowDeleter
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import RunFiles
from lakesweep.collector.sweep_progress import KeptRows, SweepProgress
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import LakesweepError


@dataclass(frozen=True, slots=True)
class Authorised:
    """Rows of a plan that may be deleted, after what is live now was read; and what became of the other rows."""

    parts: list[Part]
    done: Tally = field(default_factory=Tally)  # deleted by an earlier round or sweep
    kept: KeptRows = field(default_factory=KeptRows)
    # Not in the store any more, and no sweep of this plan is known to have deleted it.
    absent: list[Part] = field(default_factory=list)

    @property
    def tally(self) -> Tally:
        """Objects and bytes that may go."""
        return tally_of(self.parts)


@dataclass(frozen=True, slots=True)
class SweepTexts:
    """How messages and records name a sweep and its parts."""

    catalog: str  # the repository or catalog
    plan: str  # "mark 7"
    noun: str  # what a row names: "object", "file"
    begun: str  # the reason in the record while deletes are under way
    go_on: str  # the sentence with the command that goes on with the sweep


class SweptCatalog(Protocol):
    """A catalog whose plan is swept. One object serves one sweep, and remembers what it needs between rounds.

    A method with a body is a default: a catalog that has this class as its base need not write it.
    """

    texts: SweepTexts
    blast_radius: BlastRadius  # what the plan would delete, and the command that confirms it
    is_plan_untouched: bool  # whether the rows are those that the mark wrote; others are measured
    kept_outcomes: ClassVar[frozenset[str]]  # by which a row stays rightly, and has not failed
    slow_step_advice: ClassVar[Mapping[str, str]]  # phases of a round; what makes each faster

    @property
    def files(self) -> RunFiles:
        """The paths of the files of the plan's run."""

    def gone_folder(self, time: datetime) -> str:
        """The folder for the names of what is deleted from this time on."""
        return self.files.gone

    def clock_readings(self, store_time: datetime) -> Iterable[ClockReading]:
        """Further clocks to compare before a look, beside our own folder's store, which says `store_time` now."""
        return ()

    def put_up_fence(self, until: datetime) -> None:
        """Make the catalog refuse whatever would revive a row of the plan, where it can. Called before every look.

        Nothing is deleted by that look, and no delete of it arrives, after `until`.
        """
        return None

    def lift_fence(self) -> None:
        """Make the catalog refuse revivals no longer. Called only when every delete of the round was answered."""
        return None

    def look_again(self, before: Sequence[Part] | None) -> Authorised:
        """Read what is live now, and judge the plan by it; in later rounds, what the round `before` left.

        Raises a `LakesweepError` in any doubt about what is live.
        """

    def deleter(self) -> RowDeleter:
        """What deletes the rows that the last look authorised."""

    def stopped(self, reason: str, progress: SweepProgress) -> str:
        """The message about a sweep that stopped half-way."""
        return f"The sweep of {self.texts.plan} stopped half-way: {reason} {self.texts.go_on}"

    def described(self, record: RunRecord, progress: SweepProgress) -> RunRecord:
        """The record, which has the sweep's counts already, with what only the catalog knows of the sweep."""
        return record

    def concluded(
        self, record: RunRecord, progress: SweepProgress, failure: LakesweepError | None
    ) -> RunRecord:
        """The record of a sweep that came to its end, before it is saved; `failure` tells of rows that stayed."""
        return record
