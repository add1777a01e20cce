"""The page about the rejected designs shows what the explorer finds against them today."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep_testing.schedules.rejected.drawing import draw_all, put_into

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[4] / "docs" / "explanation" / "hard-delete.md"


def test_every_proposal_is_broken_and_the_page_says_how() -> None:
    """Each model loses data under some schedule; the drawings on the page are the ones made now."""
    drawn = draw_all()
    assert [name for name, text in drawn.items() if "Lost:" not in text] == []
    page = PAGE.read_text("utf-8")
    assert [name for name in drawn if f"<!-- trace: {name} -->" not in page] == []
    again = "python -m lakesweep_testing.schedules.rejected docs/explanation/hard-delete.md"
    assert page == put_into(page), f"the page is out of date; run `{again}`"
