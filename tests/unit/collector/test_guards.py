"""Blast radius: what share a plan is of, and which plans wait to be confirmed."""

from __future__ import annotations

import pytest

from lakesweep.collector.guards import SMALL_PLAN_BYTES, SMALL_PLAN_OBJECTS, BlastRadius
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, UnsafeToSweepError

PLAN = "0123456789abcdef"


def radius(garbage: Tally, live: Tally) -> BlastRadius:
    return BlastRadius(PLAN, "m1", garbage, live, "the command")


def test_large_plan_asks_to_be_confirmed_by_its_id() -> None:
    """More than a thousand objects and more than the share: only its own id lets it pass."""
    plan = radius(Tally(1001, 10), live=Tally(999, 1000))
    with pytest.raises(UnsafeToSweepError, match="the command") as caught:
        plan.check_confirmed(None, 50)
    assert caught.value.kind == "blast-radius"
    assert PLAN in caught.value.message
    plan.check_confirmed(PLAN, 50)
    plan.check_confirmed(None, 60)
    with pytest.raises(ConfigError, match="another plan"):
        plan.check_confirmed("0" * 16, 50)


def test_share_of_bytes_counts_too() -> None:
    """Few objects may hold most of the bytes."""
    plan = radius(Tally(1001, 900), live=Tally(100_000, 100))
    assert plan.share == pytest.approx(90)
    with pytest.raises(UnsafeToSweepError):
        plan.check_confirmed(None, 50)


@pytest.mark.parametrize(
    ("garbage", "goes"),
    [
        (Tally(SMALL_PLAN_OBJECTS, SMALL_PLAN_BYTES), True),
        (Tally(SMALL_PLAN_OBJECTS + 1, SMALL_PLAN_BYTES), False),
        (Tally(1, SMALL_PLAN_BYTES + 1), False),
    ],
)
def test_small_plan_is_small_in_objects_and_in_bytes(garbage: Tally, goes: bool) -> None:
    """The share of a small lake says little; one object of a terabyte is no small plan."""
    plan = radius(garbage, live=Tally(1, 1))
    if goes:
        plan.check_confirmed(None, 50)
    else:
        with pytest.raises(UnsafeToSweepError):
            plan.check_confirmed(None, 50)


def test_share_of_nothing_is_nothing() -> None:
    """An empty lake has no share to lose."""
    assert radius(Tally(), live=Tally()).share == 0.0
    assert radius(Tally(1, 0), live=Tally()).share == 100.0


@pytest.mark.parametrize(
    "named", [Tally(4000, 10), Tally(1001, 2 * SMALL_PLAN_BYTES)], ids=["objects", "bytes"]
)
def test_mark_that_names_more_than_its_plan_is_measured_again(named: Tally) -> None:
    """What somebody added to a mark was neither measured nor confirmed."""
    plan = radius(Tally(1001, 10), live=Tally(2000, 1000))
    plan.check_widening(Tally(1001, 10), 50)
    with pytest.raises(UnsafeToSweepError, match="somebody added to it"):
        plan.check_widening(named, 50)
