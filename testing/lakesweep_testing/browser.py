"""A real browser for tests of pages: Chromium from the distribution, driven by playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, Request, sync_playwright

from lakesweep_testing.real_parts import AXE, CHROMIUM

__all__ = ["WatchedPage", "open_browser"]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser without a window, closed with the block."""
    # Libraries that came with the packages because the machine lacks them.
    folders = sorted({str(file.parent) for file in CHROMIUM.folder.rglob("lib*.so*")})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM.file(),
            args=["--no-sandbox", "--disable-dev-shm-usage"],  # root in a container has neither
            env={**os.environ, "LD_LIBRARY_PATH": ":".join(folders)},
        )
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A page of which everything that goes wrong is kept: errors of scripts, refused loads, what the policy stopped."""

    def __init__(self, browser: Browser, *, width: int = 1200, scheme: Any = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("requestfailed", self._note_failed)

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.troubles.append(text)

    def _note_failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left before all of it was there
            self.troubles.append(f"{request.url}: {request.failure}")

    def findings(self) -> list[str]:
        """What some people could not use on the page as it is now: findings of axe that are serious or worse."""
        # Evaluated by the browser's own tools, which the page's policy does not bind.
        self.page.evaluate(AXE.file().read_text("utf-8") + "; undefined")
        found = self.page.evaluate("axe.run().then(found => found.violations)")
        return [
            f"{one['id']} ({one['impact']}): {[node['html'][:200] for node in one['nodes']]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        width: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width
