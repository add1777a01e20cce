"""A verdict follows from facts; totals add up, or the run is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.verdicts import Facts, Source, Tally, Totals, Verdict, verdict
from lakesweep.errors import UnsafeToSweepError

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)


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


OLD, YOUNG = CUTOFF - timedelta(microseconds=1), CUTOFF


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(Source.LISTED, OLD), Verdict.UNREFERENCED),
        (Facts(Source.LISTED, OLD, is_expired=True), Verdict.EXPIRED),
        (Facts(Source.LISTED, YOUNG), Verdict.YOUNG),
        (Facts(Source.LISTED, None), Verdict.YOUNG),
        (Facts(Source.LISTED, OLD, is_live=True, is_expired=True, is_protected=True), Verdict.LIVE),
        (Facts(Source.LISTED, OLD, is_protected=True), Verdict.PROTECTED),
        (Facts(Source.LISTED, OLD, is_deleted=True), Verdict.UNREFERENCED),
        (Facts(Source.LISTED, OLD, is_restored_lately=True), Verdict.YOUNG),
        (Facts(Source.PLANNED, OLD), Verdict.UNREFERENCED),
        (Facts(Source.PLANNED, OLD, is_deleted=True, is_live=True), Verdict.GONE),
        (Facts(Source.PLANNED, OLD, is_restored=True), Verdict.UNDATED),
        (Facts(Source.PLANNED, OLD, is_date_trusted=False), Verdict.UNDATED),
        (Facts(Source.PLANNED, None), Verdict.UNDATED),
        (Facts(Source.PLANNED, None, is_date_final=True), Verdict.YOUNG),
        (Facts(Source.COMMITTED, OLD, is_expired=True), Verdict.UNDATED),
        (Facts(Source.COMMITTED, OLD, is_deleted=True), Verdict.GONE),
        (Facts(Source.COMMITTED, OLD, is_deleted=True, is_live=True), Verdict.LIVE),
        (Facts(Source.SAVED, None), Verdict.UNDATED),
        (Facts(Source.SAVED, OLD), Verdict.UNDATED),
        (Facts(Source.SAVED, YOUNG), Verdict.YOUNG),
    ],
)
def test_the_first_rule_that_holds_decides(facts: Facts, expected: Verdict) -> None:
    """Live and gone before all else, then what protects, then age; what nobody can date is never garbage."""
    assert verdict(facts, CUTOFF) is expected
