"""What becomes of an object, told by facts about it, and the sums that must account for every object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from lakesweep.domain.cutoff import is_old_enough
from lakesweep.errors import UnsafeToSweepError

__all__ = ["Facts", "Source", "Tally", "Totals", "Verdict", "verdict"]


class Source(IntEnum):
    """Where a candidate was read from. Where one comes from several, the lowest counts: a listing knows age and size."""

    LISTED = 0
    PLANNED = 1  # a row of a plan, read again by its sweep
    COMMITTED = 2  # an entry of an expired commit
    SAVED = 3  # a list of names that an earlier run left, of some with the age that they had


class Verdict(StrEnum):
    """The one thing that a candidate is."""

    LIVE = "live"
    GONE = "gone"
    YOUNG = "young"
    PROTECTED = "protected"
    EXPIRED = "expired"
    UNREFERENCED = "unreferenced"
    UNDATED = (
        "undated"  # nobody knows its age yet: the store is asked, and then it is one of the others
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """All that decides about one object."""

    source: Source
    modified: datetime | None  # when it was written, as its source tells
    is_live: bool = False  # a live reference names it
    is_expired: bool = False  # an expired commit holds it
    is_protected: bool = False  # by its name, its place, or who it belongs to
    is_deleted: bool = False  # the last that our runs did to it was to delete it
    is_restored: bool = False  # the last that our runs did to it was to bring it back
    is_restored_lately: bool = False  # since the cut-off
    is_date_trusted: bool = True  # false for a plan whose files are not those that its mark wrote
    is_date_final: bool = False  # the store is not asked again: without a time, the object is young


def verdict(facts: Facts, cutoff: datetime) -> Verdict:
    """The verdict on one object. The first rule that holds decides, and every doubt keeps."""
    # Its own sweep is done with it, though a reference to it may have come back since.
    if facts.is_deleted and facts.source is Source.PLANNED:
        return Verdict.GONE
    if facts.is_live:
        return Verdict.LIVE
    # An expired commit names it for ever, and it was deleted long ago.
    if facts.is_deleted and facts.source is Source.COMMITTED:
        return Verdict.GONE
    if facts.is_protected:
        return Verdict.PROTECTED
    # A restore may find an object in its place, or die before it says what it brought back: its promise is an age.
    if facts.is_restored_lately:
        return Verdict.YOUNG
    if not _is_dated(facts, cutoff):
        return Verdict.UNDATED
    if not is_old_enough(facts.modified, cutoff):
        return Verdict.YOUNG
    return Verdict.EXPIRED if facts.is_expired else Verdict.UNREFERENCED


def _is_dated(facts: Facts, cutoff: datetime) -> bool:
    """Whether the store itself told the age. A commit may be back-dated, and an entry's time is its author's word."""
    if facts.is_date_final:
        return True
    if facts.source is Source.PLANNED:
        # What was restored is as young as its restoration, which only the store knows.
        return facts.modified is not None and facts.is_date_trusted and not facts.is_restored
    if facts.source is Source.SAVED:
        # It may have been written again since then, and never before: what was young for this cut-off is young.
        return facts.modified is not None and not is_old_enough(facts.modified, cutoff)
    return facts.source is Source.LISTED


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
        objects, size = ("" if number == 1 else "s" for number in (self.objects, self.bytes))
        return f"{self.objects} object{objects}, {self.bytes} byte{size}"


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a listing; `assert_conserved` before acting on them.

    `listed` is counted where pages come in and verdicts where rows come out: were one derived from the other, comparing
    them would prove nothing.
    """

    listed: Tally = Tally()
    live: Tally = Tally()
    young: Tally = Tally()
    protected: Tally = Tally()
    expired: Tally = Tally()
    unreferenced: Tally = Tally()
    undecided: Tally = Tally()  # kept because nobody could find out whether it is garbage
    rewritten: Tally = Tally()  # another object today than the one that an inventory names; kept
    vanished: Tally = Tally()  # named by an inventory, and no longer in the store

    @property
    def garbage(self) -> Tally:
        """What a plan names: expired and unreferenced."""
        return self.expired + self.unreferenced

    @property
    def classified(self) -> Tally:
        """Everything that got a verdict."""
        since_inventory = self.rewritten + self.vanished
        return (
            self.live
            + self.young
            + self.protected
            + self.undecided
            + self.garbage
            + since_inventory
        )

    def assert_conserved(self, what: str) -> None:
        """Refuse when a listed object got no verdict, or more than one. `what` names the listing in the message."""
        if self.listed != self.classified:
            raise UnsafeToSweepError(
                f"The numbers of {what} do not add up: {self.listed} were listed, but {self.classified} got a verdict "
                f"(live {self.live}; young {self.young}; protected {self.protected}; "
                f"undecided {self.undecided}; rewritten {self.rewritten}; vanished {self.vanished}; "
                f"garbage {self.garbage}). "
                "Nothing was deleted. Run again; if it happens twice, report it with the run record.",
                kind="not-conserved",
            )
