"""Every program under every schedule, or under as many as the time allows: more than 20,000 in all."""

from __future__ import annotations

import pytest

from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer
from lakesweep_testing.schedules.program import PROGRAMS, all_programs
from lakesweep_testing.schedules.story import tell

pytestmark = [pytest.mark.slow, pytest.mark.long]

EVERY = 200
AT_RANDOM = 420
"""Of a program that has more schedules than those."""
IN_ALL = 20_000
SEEN: dict[str, int] = {}


@pytest.mark.parametrize("name", all_programs())
def test_no_schedule_does_harm(name: str) -> None:
    """Nothing live is lost, nothing young goes, the ledger is true and nothing stays for ever, after every step."""
    program = PROGRAMS[name]
    with Explorer(program) as explorer:
        count = explorer.every_schedule(EVERY, stop_at=1 if program.loses else FOR_EVER)
        if not program.loses and not count.is_complete:
            count += explorer.random_schedules(AT_RANDOM, seed=1, stop_at=FOR_EVER)
    SEEN[name] = count.schedules
    if program.loses:
        assert count.losses, f"{name} lost nothing, though {program.loses}"
    else:
        assert not count.harms, tell(count.found[0])


def test_tens_of_thousands_of_schedules_were_seen() -> None:
    """As many as the docs say, schedules of programs that have few counted once."""
    if SEEN.keys() != all_programs().keys():
        pytest.skip("only some of the programs ran")
    assert sum(SEEN.values()) >= IN_ALL, SEEN
