"""Online hard delete with one step of its protocol left out: the explorer finds what the step is for."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from lakesweep_testing.schedules.controls import (
    CONTROLS,
    FENCE_ALONE,
    REDUNDANT,
    Control,
    untracked,
)
from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer
from lakesweep_testing.schedules.program import all_programs
from lakesweep_testing.schedules.story import tell

AT_RANDOM = 2_000
EVERY = 200


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_without_the_step_harm_is_found(control: Control) -> None:
    """Some schedule loses data, or leaves something for ever."""
    with control.put_in(), Explorer(all_programs()[control.program]) as explorer:
        count = explorer.random_schedules(EVERY, seed=1)
        if not count.harms and control.program.endswith("-sweep"):
            count = explorer.every_schedule(AT_RANDOM)
        elif not count.harms:
            count = explorer.random_schedules(AT_RANDOM, seed=1, first=EVERY)
    assert count.harms, f"{control.name}: nothing was found in {count.schedules} schedules"
    assert count.found[0].harm.is_leak == (control.leads_to == "leak"), tell(count.found[0])


@pytest.mark.parametrize("name", FENCE_ALONE)
def test_the_fence_alone_protects_copies(name: str) -> None:
    """Without tracked copies no schedule loses data: what the controls above leave out is all that carries."""
    with ExitStack() as stack, Explorer(all_programs()[name]) as explorer:
        untracked(stack)
        count = explorer.random_schedules(EVERY, seed=2, stop_at=FOR_EVER)
    assert not count.harms, tell(count.found[0])


@pytest.mark.parametrize("control", REDUNDANT, ids=lambda control: control.name)
def test_a_step_that_others_cover(control: Control) -> None:
    """No harm was found without it; should some be, the step moves to the list above."""
    with control.put_in(), Explorer(all_programs()[control.program]) as explorer:
        count = explorer.random_schedules(EVERY, seed=1, stop_at=FOR_EVER)
    assert not count.harms, tell(count.found[0])
