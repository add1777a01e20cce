"""Every program under every schedule, or under as many as the time allows: more than 20,000 in all."""

from __future__ import annotations

import pytest

from lakesweep_testing.schedules.exploring import FOR_EVER, Explorer
from lakesweep_testing.schedules.program import PROGRAMS, all_programs
from lakesweep_testing.schedules.programs.beside_review import SUFFIX
from lakesweep_testing.schedules.story import tell

pytestmark = [pytest.mark.slow, pytest.mark.long]

EVERY, AT_RANDOM = 60, 900
"""The first ones in order; and of a program that has more than those, so many by chance."""
DEAR_EVERY, DEAR_AT_RANDOM = 12, 28
"""Of programs whose schedules take two to four times as long: `make safety` has as many of them as of the others."""
DEAR = {
    "absent-upload-delete-review",
    "absent-upload-reset-review",
    "absent-uploads-commit-review",
    "branch-from-commit-sweep",
    "cherry-pick-sweep",
    "commit-commit",
    "commit-commit-review",
    "commit-delete-review",
    "commit-move",
    "commit-move-review",
    "commit-prepare",
    "concurrent-move",
    "copy-commit",
    "copy-commit-review",
    "delete-move",
    "describe-collect",
    "describe-reset-review",
    "describe-review",
    "lease-lost-in-mid-delete",
    "link-collect",
    "longer-rules-sweep",
    "merge-collect",
    "merge-sweep",
    "metarange-review",
    "reset-object-commit-review",
    "reset-prefix-copy-review",
    "reset-sweep",
    "restore-sweep",
    "resume-beside-zombie",
    "revert-sweep",
    "stale-lock-review",
    "tag-sweep",
    "two-collectors",
    "two-reviewers-and-copy",
    "undo-review",
    "upload-again-batch-review",
    "upload-again-two-reviewers",
    "upload-rotate-slice",
    "upload-rotate-slice-review",
}
IN_ALL = 20_000
SEEN: dict[str, int] = {}


@pytest.mark.parametrize("name", all_programs())
def test_no_schedule_does_harm(name: str) -> None:
    """Nothing live is lost, nothing young goes, the ledger is true and nothing stays for ever, after every step."""
    program = PROGRAMS[name]
    is_dear = name in DEAR or name.endswith(SUFFIX)
    every, at_random = (DEAR_EVERY, DEAR_AT_RANDOM) if is_dear else (EVERY, AT_RANDOM)
    with Explorer(program) as explorer:
        count = explorer.every_schedule(every, stop_at=1 if program.loses else FOR_EVER)
        if not program.loses and not count.is_complete:
            count += explorer.random_schedules(at_random, seed=1, stop_at=FOR_EVER)
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
