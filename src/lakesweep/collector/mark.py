"""Mark: find the garbage and prove the numbers. Nothing is deleted here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lakesweep.collector.judge.meeting import Judged
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.phases import Phases
from lakesweep.domain.verdicts import Tally, Totals, Verdict
from lakesweep.errors import UnsafeToSweepError


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: the verdicts on all candidates, and the totals of the listing where one brought them all."""

    judged: Judged
    garbage: list[Part]
    # None: candidates came from elsewhere, and no listing accounts for them.
    listed: Tally | None = None
    # Of the listing: protected before anything was judged.
    never_candidates: Tally = field(default_factory=Tally)
    # Of an inventory: judged to be garbage, and since then replaced by another object, or gone.
    rewritten: Tally = field(default_factory=Tally)
    vanished: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class Settled:
    """The garbage that is left after the catalog's own last checks, which may keep more and never less."""

    garbage: list[Part]
    live: list[Part] = field(default_factory=list)  # turned out to be read
    undecided: list[Part] = field(default_factory=list)  # nobody could find out
    reasons: tuple[str, ...] = ()  # why they are undecided

    @property
    def kept(self) -> list[Part]:
        """The parts that the last checks took out of the garbage."""
        return [*self.live, *self.undecided]


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may be planned, with the account of everything that was looked at."""

    found: Found
    settled: Settled
    totals: Totals

    @property
    def tally(self) -> Tally:
        """Objects and bytes of the garbage."""
        return tally_of(self.settled.garbage)


class MarkedCatalog(Protocol):
    """A catalog in which garbage is looked for. One object serves one mark."""

    @property
    def name(self) -> str:
        """The name of the repository or catalog in messages."""
        ...

    def search(self) -> Found:
        """Take canaries, read what is live, list what exists, and judge what exists by what is live (`judge_all`)."""
        ...

    def settle(self, found: Found) -> Settled:
        """The catalog's own last checks: refuse a result in doubt, and take out of the garbage what must stay after all."""
        return Settled(found.garbage)


def find_garbage(catalog: MarkedCatalog, phases: Phases) -> Garbage:
    """Find the garbage of a catalog, with an account of every listed object; refused where the numbers do not add up.

    Raises:
        UnsafeToSweepError: doubt about what is live, or about a number.
    """
    found = catalog.search()
    with phases.phase("verify") as step:
        settled = catalog.settle(found)
        step.handled(tally_of(settled.garbage))
        step.said = (
            f"{step.items} still garbage, {tally_of(settled.live).objects} live after all, "
            f"{tally_of(settled.undecided).objects} undecided"
        )
    totals = _totals(found, settled)
    totals.assert_conserved(f"the listing of {catalog.name}")
    if found.listed is not None and tally_of(settled.garbage) != totals.garbage:
        raise UnsafeToSweepError(
            f"{totals.garbage} of {catalog.name} are garbage, but {tally_of(settled.garbage)} are in the plan. "
            "Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    return Garbage(found, settled, totals)


def _totals(found: Found, settled: Settled) -> Totals:
    """The account of every listed object. Candidates that no listing brought are no part of it."""
    if found.listed is None:
        return Totals()
    tallies = found.judged.tallies
    live, undecided = tally_of(settled.live), tally_of(settled.undecided)
    return Totals(
        listed=found.listed,
        live=tallies[Verdict.LIVE] + live,
        young=tallies[Verdict.YOUNG],
        protected=found.never_candidates + tallies[Verdict.PROTECTED],
        expired=tallies[Verdict.EXPIRED],
        unreferenced=tallies[Verdict.UNREFERENCED] - live - undecided,
        undecided=undecided,
        rewritten=found.rewritten,
        vanished=found.vanished,
    )
