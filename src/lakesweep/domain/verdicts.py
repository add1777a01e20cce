"""What became of every listed object, and the sums that must account for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from lakesweep.errors import UnsafeToSweepError

__all__ = ["EMPTY", "Tally", "Totals", "Verdict"]


class Verdict(StrEnum):
    """The one thing that a listed object is. Order of precedence: protected, live, young, then garbage."""

    LIVE = "live"
    YOUNG = "young"
    PROTECTED = "protected"
    EXPIRED = "expired"
    UNREFERENCED = "unreferenced"

    @property
    def is_garbage(self) -> bool:
        """Whether a plan may name such an object."""
        return self in (Verdict.EXPIRED, Verdict.UNREFERENCED)


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of objects and their bytes."""

    objects: int = 0
    bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.objects + other.objects, self.bytes + other.bytes)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.objects - other.objects, self.bytes - other.bytes)

    def __str__(self) -> str:
        return f"{self.objects} objects, {self.bytes} bytes"


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a listing. Add the totals of its parts; `assert_conserved` before acting on them."""

    listed: Tally = Tally()
    live: Tally = Tally()
    young: Tally = Tally()
    protected: Tally = Tally()
    expired: Tally = Tally()
    unreferenced: Tally = Tally()
    undecided: Tally = Tally()  # kept because nobody could find out whether it is garbage

    @classmethod
    def of(cls, verdict: Verdict, tally: Tally) -> Totals:
        """The totals of a part that is all of one kind, its share of `listed` left out.

        `listed` is counted where pages come in and verdicts where rows come out: were one derived from the other,
        comparing them would prove nothing.
        """
        return cls(**{verdict.value: tally})

    @classmethod
    def sum(cls, parts: Iterable[Totals]) -> Totals:
        """All parts together; `EMPTY` for none."""
        return sum(parts, EMPTY)

    @property
    def garbage(self) -> Tally:
        """What a plan names: expired and unreferenced."""
        return self.expired + self.unreferenced

    @property
    def classified(self) -> Tally:
        """Everything that got a verdict."""
        return self.live + self.young + self.protected + self.undecided + self.garbage

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def assert_conserved(self, what: str) -> None:
        """Refuse when a listed object got no verdict, or more than one. `what` names the listing in the message."""
        if self.listed != self.classified:
            raise UnsafeToSweepError(
                f"The numbers of {what} do not add up: {self.listed} were listed, but {self.classified} got a verdict "
                f"(live {self.live}; young {self.young}; protected {self.protected}; "
                f"undecided {self.undecided}; garbage {self.garbage}). "
                "Nothing was deleted. Run again; if it happens twice, report it with the run record.",
                kind="not-conserved",
            )


EMPTY = Totals()
