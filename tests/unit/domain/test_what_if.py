"""The curve of what days free, and the JSON form of a what-if."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import (
    NEVER_KEPT,
    Curve,
    NamedCurve,
    Point,
    RulesFigure,
    WhatIf,
)

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
CURVE = Curve.of({0: Tally(9, 900), 3: Tally(2, 20), 7: Tally(1, 10), NEVER_KEPT: Tally(1, 5)})
WHAT_IF = WhatIf(
    catalog="lakefs",
    name="example-repo",
    what="all",
    asked_at=NOW,
    now=NOW,
    cutoff=NOW,
    curve=CURVE,
    unreferenced=Tally(4, 40),
    kept={"live": Tally(9, 900), "young": Tally(1, 1)},
    groups=(NamedCurve("branch", "main", CURVE),),
    with_tags_kept=Curve(),
    branch_days=(NamedCurve("branch", "dev", CURVE),),
    rules=(RulesFigure("a.json", {"default_retention_days": 3}, Tally(2, 15), 5, 6),),
    price=0.023,
    depth=1,
    seconds=1.5,
    notes=("a note",),
)


def test_objects_are_freed_by_fewer_days_than_keep_them() -> None:
    """An object that three days keep is freed by two; what no days keep is freed by all, what all keep by none."""
    assert CURVE.points == (Point(0, 4, 35), Point(3, 2, 15), Point(7, 1, 5))
    assert [CURVE.at(days).objects for days in (0, 2, 3, 6, 7, 8, 10_000)] == [4, 4, 2, 2, 1, 1, 1]


def test_a_curve_of_nothing_frees_nothing() -> None:
    """There is a first point also where no object is."""
    assert Curve.of({}) == Curve()
    assert Curve().at(5) == Tally()


def test_the_unreferenced_go_with_every_number_of_days() -> None:
    """They are no part of the curve, and of all that is freed."""
    assert WHAT_IF.freed(3) == Tally(6, 55)
    assert WHAT_IF.freed(10_000) == Tally(5, 45)
    assert WHAT_IF.never == Tally(10, 901)


def test_gigabytes_are_billed_in_powers_of_two() -> None:
    """A GB of a price list has 2^30 bytes; without a price there is no money."""
    assert WHAT_IF.money(2 * 2**30) == pytest.approx(0.046)
    assert replace(WHAT_IF, price=None).money(1) is None


@pytest.mark.parametrize("price", [None, 0.023])
def test_the_json_form_reads_back_to_an_equal_value(price: float | None) -> None:
    """Whoever draws the curve later has all of it."""
    what_if = replace(WHAT_IF, price=price)
    assert WhatIf.from_json(json.dumps(what_if.as_json())) == what_if


def test_another_schema_is_refused() -> None:
    """A file of another version is not read as if it were this one."""
    with pytest.raises(ValueError, match=r"lakesweep\.what-if/1"):
        WhatIf.from_json(json.dumps({**WHAT_IF.as_json(), "schema": "lakesweep.what-if/2"}))
