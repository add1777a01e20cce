"""Every program under every schedule, or under as many as the time allows."""

from __future__ import annotations

import pytest

from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer
from lakesweep_testing.schedules.program import PROGRAMS, all_programs
from lakesweep_testing.schedules.story import tell

EVERY = 120
AT_RANDOM = 40
# Steps of these are many, and each schedule costs five times as much.
LONG = ("two-collectors", "lease-lost-in-mid-delete", "resume-beside-zombie")


@pytest.mark.parametrize("name", all_programs())
def test_no_schedule_does_harm(name: str) -> None:
    """Nothing live is lost, nothing young goes, the ledger is true and nothing stays for ever, after every step."""
    program = PROGRAMS[name]
    less = 5 if name in LONG else 1
    with Explorer(program) as explorer:
        count = explorer.every_schedule(EVERY // less, stop_at=1 if program.loses else FOR_EVER)
        if not program.loses:
            count += explorer.random_schedules(AT_RANDOM // less, seed=1, stop_at=FOR_EVER)
    if program.loses:
        assert count.losses, f"{name} lost nothing, though {program.loses}"
    else:
        assert not count.harms, tell(count.found[0])
