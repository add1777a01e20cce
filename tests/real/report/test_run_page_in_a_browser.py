"""The page of a run in a real browser: nothing on the console, nothing asked of anybody, and usable by everybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from lakesweep.report.html.page import history_page, run_page
from lakesweep_testing.browser import WatchedPage, open_browser
from lakesweep_testing.sample_runs import hostile, sample_record, sample_summary, sample_what_if

pytestmark = pytest.mark.real

LOOKS: list[tuple[int, Literal["light", "dark"]]] = [(1200, "light"), (400, "dark")]


def test_pages_load_nothing_and_pass_axe(tmp_path: Path) -> None:
    """A plain run, one whose every name is hostile, an expiry and the history; wide and light, narrow and dark."""
    record, summary = sample_record(), sample_summary()
    runs = [replace(record, run_id=f"g{n}") for n in range(3)]
    pages = {
        "run": run_page(record, summary, sample_what_if()),
        "hostile": run_page(*hostile(record, summary)),
        "expiry": run_page(replace(record, what="nessie"), summary, sample_what_if()),
        "history": history_page("example-repo", runs),
    }
    with open_browser() as browser:
        for name, html in pages.items():
            file = tmp_path / f"{name}.html"
            file.write_text(html, "utf-8")
            for width, scheme in LOOKS:
                watched = WatchedPage(browser, width=width, scheme=scheme)
                asked: list[str] = []
                watched.page.on("request", lambda request, asked=asked: asked.append(request.url))
                watched.page.goto(file.as_uri())
                watched.page.evaluate(
                    "document.querySelectorAll('details').forEach(one => one.open = true)"
                )
                assert asked == [file.as_uri()]
                assert watched.troubles == []
                assert watched.overflow() == 0, (name, width)
                assert watched.findings() == [], (name, width, scheme)
                watched.context.close()
