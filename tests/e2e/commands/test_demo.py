"""`lakesweep demo` tells its whole story, and its numbers add up."""

from __future__ import annotations

import pytest

from lakesweep_testing.commands import Shell

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.timeout(300)]


def test_the_demo_comes_to_its_end(shell: Shell) -> None:
    """Each of its checks raises when something is not as told, so coming to the end is the proof."""
    told = shell.run("demo")
    for said in (
        "a rename is under way",
        "uploaded 33 days ago, never linked",
        "410 Gone",
        "readable again",
        "nothing to do: ",
        "counted in the folder itself",
    ):
        assert said in told
