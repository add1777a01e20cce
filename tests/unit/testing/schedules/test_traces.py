"""Schedules that did harm, of the code as it was or of a mistake put into it: each stays a test by its choices."""

from __future__ import annotations

import pytest

from lakesweep_testing.schedules.exploring import Explorer, parse_choices
from lakesweep_testing.schedules.program import all_programs
from lakesweep_testing.schedules.story import tell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("program", "choices"),
    [
        # A lease that had run out was renewed between the look of another collector and its taking over.
        (
            "resume-beside-zombie",
            "user*2.zombie*10.user*7.zombie*2.resumer*5.zombie*22.resumer*3.zombie*3.resumer",
        ),
        # The time of a chunk runs out between its intent and its delete.
        (
            "lease-lost-in-mid-delete",
            "collector*2.other*39.clock.mover*11.collector*3.other",
        ),
        # New metadata stage an address once more that a commit has let go of meanwhile.
        (
            "describe-collect",
            "remover*2.describer.collector*2.describer*4.remover*8.describer.collector*6.remover*3"
            ".describer*6.remover*2.collector*12.describer*6",
        ),
        # A link lets go of its record, a collection passes, and only then the entry is staged.
        ("link-collect", "linker*5.collector*17.linker*2"),
        # Two collectors find no lease, and both make the first.
        ("two-collectors", "other.collector*3.other*3.collector.collector!.other"),
    ],
)
def test_a_trace_does_no_harm_any_more(program: str, choices: str) -> None:
    """The very order of steps that did harm does none."""
    with Explorer(all_programs()[program]) as explorer:
        found = explorer.replay(parse_choices(choices))
    assert found is None, tell(found)
