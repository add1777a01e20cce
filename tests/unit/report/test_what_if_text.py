"""A what-if as text: the days people think in, the steps, the groups, and money."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, NamedCurve, RulesFigure, WhatIf
from lakesweep.report.what_if import what_if_text

NOW = datetime(2024, 6, 1, 12, 0, 0, 123, tzinfo=UTC)
GIB = 2**30
CURVE = Curve.of({5: Tally(1, GIB), 40: Tally(1_000, 100 * GIB)})
WHAT_IF = WhatIf(
    catalog="lakefs",
    name="example-repo",
    what="all",
    asked_at=NOW,
    now=NOW,
    cutoff=NOW,
    curve=CURVE,
    unreferenced=Tally(1, 10 * GIB),
    kept={"live": Tally(5, 5 * GIB)},
    groups=(
        NamedCurve("branch", "main", CURVE),
        *(NamedCurve("path", f"p{n}/", Curve.of({8: Tally(1, n + 1)})) for n in range(12)),
    ),
    with_tags_kept=Curve.of({5: Tally(1, GIB)}),
    branch_days=(NamedCurve("branch", "dev", Curve()),),
    rules=(RulesFigure("a.json", {}, Tally(7, 7 * GIB), 3, 4),),
)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_steps_are_shown_between_the_days_that_people_think_in() -> None:
    """5 and 40 days are where something changes; beyond that, one number says that nothing is left."""
    shown = [row[0] for row in rows(what_if_text(WHAT_IF)) if row and row[0].isdigit()]
    assert shown == ["1", "2", "3", "5", "7", "14", "21", "30", "40", "60"]


def test_what_goes_and_stays_whatever_the_days_is_said_apart() -> None:
    """Neither is part of the table of days."""
    text = what_if_text(WHAT_IF)
    assert "Goes whatever the days, in no commit: 1 object, 10.0 GiB" in text
    assert "Stays whatever the days, live: 5 objects, 5.0 GiB" in text
    assert ["3", "1,001", "101.0", "GiB", "1", "1.0", "GiB"] in rows(text)


def test_money_is_a_column_where_there_is_a_price() -> None:
    """By the table's rows, what is unreferenced, and the rules."""
    assert "money" not in what_if_text(WHAT_IF)
    text = what_if_text(replace(WHAT_IF, price=0.02, with_tags_kept=None))
    assert ["3", "1,001", "101.0", "GiB", "2.02"] in rows(text)
    assert "10.0 GiB, 0.20 a month" in text
    assert ["a.json", "3", "4", "7", "7.0", "GiB", "0.14"] in rows(text)


def test_long_groups_are_cut_and_say_so() -> None:
    """A page of ten, and where the rest is."""
    text = what_if_text(WHAT_IF)
    assert "and 2 more: --output json has them all" in text
    assert ["p0/", "1", "/", "1", "B", "1", "/", "1", "B", "-", "-"] in rows(text)


def test_a_reference_time_of_its_own_is_said() -> None:
    """With --now the days are not counted from the time of asking."""
    assert "days before" not in what_if_text(WHAT_IF)
    text = what_if_text(replace(WHAT_IF, now=datetime(2024, 1, 1, tzinfo=UTC)))
    assert "days before 2024-01-01T00:00:00Z" in text
