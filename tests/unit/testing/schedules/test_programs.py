"""Every program under every schedule, or under as many as the time allows: more than 20,000 in all."""

from __future__ import annotations

import pytest

from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer
from lakesweep_testing.schedules.program import PROGRAMS, all_programs
from lakesweep_testing.schedules.programs.beside_review import SUFFIX
from lakesweep_testing.schedules.story import tell

pytestmark = [pytest.mark.slow, pytest.mark.long]

EVERY, AT_RANDOM = 200, 520
"""The first ones in order; and of a program that has more than those, so many by chance."""
DEAR = {
    "commit-commit-review",
    "commit-move-review",
    "copy-commit-review",
    "lease-lost-in-mid-delete",
    "restore-sweep",
    "resume-beside-zombie",
    "two-collectors",
}
"""Programs that took two fifths of the time: they get a quarter of the others' schedules here, and `make safety` has all.

Programs with a further reviewer get an eighth."""
IN_ALL = 20_000
SEEN: dict[str, int] = {}


@pytest.mark.parametrize("name", all_programs())
def test_no_schedule_does_harm(name: str) -> None:
    """Nothing live is lost, nothing young goes, the ledger is true and nothing stays for ever, after every step."""
    program = PROGRAMS[name]
    share = 8 if name.endswith(SUFFIX) else 4 if name in DEAR else 1
    with Explorer(program) as explorer:
        count = explorer.every_schedule(EVERY // share, stop_at=1 if program.loses else FOR_EVER)
        if not program.loses and not count.is_complete:
            count += explorer.random_schedules(AT_RANDOM // share, seed=1, stop_at=FOR_EVER)
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
