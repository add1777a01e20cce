"""The documentation as a site, in a browser: its search finds pages, and the menu leads to every one."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from lakesweep_testing.browser import WatchedPage, open_browser

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "tools" / "make_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path)
    monkeypatch.setattr(module, "SOURCE", tmp_path / "site-source")
    assert module.main() == 0
    handler = functools.partial(Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_search_and_menu_lead_to_pages(site: str, tmp_path: Path) -> None:
    """Nothing goes wrong on the way, and nobody else is asked."""
    with open_browser() as browser:
        watched = WatchedPage(browser)
        watched.page.goto(f"{site}/docs/tutorial.html")
        watched.page.locator("input.md-search__input").click()
        watched.page.keyboard.type("how much room our own files take")
        watched.page.locator(".md-search-result__item a").first.click()
        watched.page.wait_for_url("**/upgrade-and-remove.html*")
        links = watched.page.evaluate(
            "[...document.querySelectorAll('a.md-nav__link')].map(a => a.href)"
        )
        assert watched.troubles == []
    reached = {unquote(urlparse(link).path).lstrip("/") for link in links}
    made = {
        str(page.relative_to(tmp_path / "site")) for page in (tmp_path / "site").rglob("*.html")
    }
    # The list of all pages is what the menu is made from; the example's page is linked from the page of clusters.
    assert made - reached == {"404.html", "docs/index.html", "examples/emr/index.html"}
