"""Online hard delete with one step of its protocol left out: the explorer finds what the step is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep_testing.schedules.control_table import row, rows_in
from lakesweep_testing.schedules.controls import CONTROLS, SPARES, Control, Step, kind_of, search
from lakesweep_testing.schedules.exploring import FOR_EVER, Count, Explorer
from lakesweep_testing.schedules.program import all_programs
from lakesweep_testing.schedules.story import tell

pytestmark = [pytest.mark.slow, pytest.mark.long]

PAGE = Path(__file__).resolve().parents[4] / "docs" / "design" / "035-schedules.md"
ALONE = 300
EVERY = [control for part in CONTROLS.values() for control in part]
IDS = [f"{control.name} [{control.program}]" for control in EVERY]


@pytest.mark.parametrize("control", EVERY, ids=IDS)
def test_without_the_step_harm_is_found(control: Control) -> None:
    """Some schedule loses data, leaves something for ever, or deletes what no ledger told of."""
    count = search(control)
    assert count.harms, f"{control.name}: nothing was found in {count.schedules} schedules"
    assert kind_of(count) == control.leads_to, tell(count.found[0])


def _without(step: Step, program: str) -> Count:
    with step.put_in(), Explorer(all_programs()[program]) as explorer:
        return explorer.random_schedules(ALONE, seed=1, stop_at=FOR_EVER)


@pytest.mark.search
@pytest.mark.parametrize(
    ("step", "program"),
    dict.fromkeys(
        (step, control.program)
        for control in EVERY
        if control.partner is not None
        for step in (control.step, control.partner)
    ),
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_either_step_of_a_pair_is_enough(step: Step, program: str) -> None:
    """With the other one in place no schedule does harm: the two cover the same race."""
    count = _without(step, program)
    assert not count.harms, tell(count.found[0])


@pytest.mark.search
@pytest.mark.parametrize(
    ("step", "program"),
    [(step, program) for step, programs in SPARES.items() for program in programs],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_nothing_rests_on_what_is_spare(step: Step, program: str) -> None:
    """Without it no schedule loses data: the steps of the controls are all that carries."""
    count = _without(step, program)
    assert not count.losses, tell(count.found[0])


def test_the_page_has_every_control() -> None:
    """The table of the design page names each step that was left out, its program and its harm."""
    wanted = [row(part, control) for part, controls in CONTROLS.items() for control in controls]
    again = "python -m lakesweep_testing.schedules.control_table docs/design/035-schedules.md"
    assert rows_in(PAGE.read_text("utf-8")) == wanted, f"the table is out of date; run `{again}`"
