"""What the rounds of a sweep have done so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakesweep.collector.ledger import deleting
from lakesweep.domain.verdicts import Tally

OUTCOMES = (
    deleting.DELETED,
    deleting.ALREADY_GONE,
    deleting.DENIED,
    deleting.THROTTLED,
    deleting.FAILED,
    deleting.PROTECTED,
    deleting.NOT_TRIED,
    deleting.CLOCK_OFF,
)


@dataclass(slots=True)
class SweepProgress:
    """Objects and bytes by outcome, with an example of each."""

    outcomes: dict[str, Tally] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    done_before: Tally = field(default_factory=Tally)
    not_backed_up: Tally = field(default_factory=Tally)

    def add(self, outcome: str, tally: Tally, example: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, Tally()) + tally
        self.examples.setdefault(outcome, example)

    def forget_undone(self) -> None:
        """The next round tries every key again that is still there, so only what is done stays counted."""
        self.outcomes = {o: t for o, t in self.outcomes.items() if o in deleting.DONE}

    def tally(self, *outcomes: str) -> Tally:
        return sum((self.outcomes.get(o, Tally()) for o in outcomes), Tally())
