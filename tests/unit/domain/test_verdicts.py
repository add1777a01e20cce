"""Totals add up, or the run is refused."""

from __future__ import annotations

import pytest

from lakesweep.domain.verdicts import EMPTY, Tally, Totals, Verdict
from lakesweep.errors import UnsafeToSweepError


def test_totals_of_parts_add_up():
    """Each verdict's part counts once, and garbage is both kinds together."""
    parts = [Totals.of(verdict, Tally(n, n * 10)) for n, verdict in enumerate(Verdict, start=1)]
    total = Totals.sum(parts) + Totals(listed=Tally(15, 150))
    assert total.garbage == Tally(4 + 5, 90)
    assert total.classified == total.listed
    total.assert_conserved("the listing")


def test_the_empty_total_is_conserved():
    """Nothing listed, nothing classified."""
    assert Totals.sum([]) == EMPTY
    EMPTY.assert_conserved("an empty namespace")


@pytest.mark.parametrize(
    "totals",
    [
        Totals(listed=Tally(2, 20), live=Tally(1, 20)),
        Totals(listed=Tally(2, 20), live=Tally(2, 19)),
        Totals(listed=Tally(1, 1), live=Tally(1, 1), young=Tally(1, 1)),
    ],
    ids=["an object without a verdict", "bytes lost", "two verdicts for one object"],
)
def test_totals_that_do_not_add_up_are_refused(totals):
    """In objects and in bytes."""
    with pytest.raises(UnsafeToSweepError, match="slice 7") as caught:
        totals.assert_conserved("slice 7")
    assert caught.value.kind == "not-conserved"


def test_only_expired_and_unreferenced_are_garbage():
    """Everything else stays."""
    assert {v for v in Verdict if v.is_garbage} == {Verdict.EXPIRED, Verdict.UNREFERENCED}
