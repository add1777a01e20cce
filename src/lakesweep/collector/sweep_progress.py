"""What the rounds of a sweep have done so far, and what they have kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakesweep.collector.ledger import deleting
from lakesweep.collector.outcomes import Outcomes
from lakesweep.collector.parts import Part
from lakesweep.domain.verdicts import Tally

_NOT_BACKED_UP = "not backed up"


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of a plan that are not to be deleted any more. A round judges none that an earlier one kept, so they add up."""

    revived: Tally = field(default_factory=Tally)
    revived_parts: tuple[Part, ...] = ()
    undecided_parts: tuple[Part, ...] = ()  # may be staged re-uploads
    reasons: tuple[str, ...] = ()  # why they are undecided
    refused: Tally = field(default_factory=Tally)  # of the wrong shape, protected, or too young

    def __add__(self, other: KeptRows) -> KeptRows:
        return KeptRows(
            revived=self.revived + other.revived,
            revived_parts=(*self.revived_parts, *other.revived_parts),
            undecided_parts=(*self.undecided_parts, *other.undecided_parts),
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            refused=self.refused + other.refused,
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """What came back to life, and what nobody could decide: the next run looks at it again."""
        return (*self.revived_parts, *self.undecided_parts)


@dataclass(slots=True)
class SweepProgress(Outcomes):
    """Objects and bytes by outcome, with an example of each; and the rows that no round tries to delete."""

    kept_outcomes: frozenset[str] = frozenset()  # by which a row stays rightly, and did not fail
    done_before: Tally = field(default_factory=Tally)
    kept: KeptRows = field(default_factory=KeptRows)
    revived_names: list[str] = field(default_factory=list)
    not_backed_up: Tally = field(default_factory=Tally)
    parts_not_backed_up: list[Part] = field(default_factory=list)

    def leave_without_copy(self, tally: Tally, parts: list[Part], why: str) -> None:
        """Rows stay because their copies could not be made or verified."""
        self.not_backed_up, self.parts_not_backed_up = tally, parts
        if tally.objects:
            self.examples[_NOT_BACKED_UP] = why

    def forget_undone(self) -> None:
        """The next round tries every row again that is still there, so only what is done stays counted."""
        for outcome in set(self.tallies) - deleting.DONE:
            del self.tallies[outcome]

    @property
    def deleted(self) -> Tally:
        """What this sweep and interrupted ones before it have deleted."""
        return self.tally(deleting.DELETED) + self.done_before

    @property
    def failed(self) -> Tally:
        """Rows of the plan that are still there and should not be."""
        return self.tally(*(deleting.UNDONE - self.kept_outcomes)) + self.not_backed_up

    @property
    def failures(self) -> dict[str, str]:
        """One example for each way of failing."""
        return {
            outcome: example
            for outcome, example in self.examples.items()
            if outcome not in deleting.DONE | self.kept_outcomes
            and (outcome == _NOT_BACKED_UP or self.tally(outcome).objects)
        }

    @property
    def why_failed(self) -> str:
        """All ways of failing in one line."""
        return "; ".join(f"{outcome}: {example}" for outcome, example in self.failures.items())
