"""The pages as people use them: a real browser on `lakesweep web`, a mark and a sweep on Spark, wide and narrow, light and dark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from lakesweep.cli.lake_pages import LakePages
from lakesweep.lake.server import LakeServer, Serving
from lakesweep_testing.browser import WatchedPage, open_browser
from lakesweep_testing.commands import Repository, lake_environment, new_repository

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

# A mark or a sweep starts a Spark, which takes a while where others work as well.
SPARK_MS = 150_000
# What a browser says about a page that answers with a refusal.
_REFUSED = "Failed to load resource: the server responded with a status of 4"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        yield server


@pytest.fixture(scope="module")
def repository(server: LakeServer) -> Repository:
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth, timeout=60) as api:
        return new_repository(server, api, "garden")


@contextmanager
def served(server: LakeServer, tmp_path: Path) -> Iterator[str]:
    """`lakesweep web` on the server; its link."""
    environment = {**os.environ, **lake_environment(server)}
    environment["LAKECTL_CONFIG_FILE"] = os.devnull
    sets = f"sqlite:///{tmp_path / 'sets.db'}"
    schema = ("create-sql-schema", "--jdbc-url", sets)
    subprocess.run([sys.executable, "-m", "lakesweep", "nessie", *schema], check=True)
    words = ("web", "--port", "0", "--master", "local[2]", "--jdbc-url", sets, "--quiet")
    with subprocess.Popen(
        [sys.executable, "-m", "lakesweep", *words],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as web:
        try:
            assert web.stdout is not None
            found = re.search(r"http\S+", web.stdout.readline())
            assert found
            yield found[0]
        finally:
            web.terminate()


def test_a_mark_a_refused_sweep_and_a_sweep(
    server: LakeServer, repository: Repository, browser: Browser, tmp_path: Path
) -> None:
    """From the printed link to data that is gone, and every page on the way without a trouble."""
    with served(server, tmp_path) as link:
        base = link.partition("/login")[0]
        watched = WatchedPage(browser)
        page = watched.page
        page.goto(link)
        page.get_by_role("link", name="garden").click()
        page.get_by_role("button", name="Start a mark").click()
        page.wait_for_selector("[data-done]", timeout=SPARK_MS)
        assert page.locator(".status").first.inner_text() == "marked"
        page.get_by_role("link", name="The run, and what may be done next").click()
        run = page.url.removeprefix(base)
        plan_id = page.locator("label[for=plan_id] code").inner_text()
        assert watched.troubles == []

        page.get_by_label("To confirm").fill("another plan")
        page.get_by_role("button", name="Sweep").click()
        assert "is not the id of this run's plan" in page.get_by_role("alert").inner_text()
        assert repository.has(repository.expired)
        assert [t for t in watched.troubles if not t.startswith(_REFUSED)] == []
        watched.troubles.clear()

        look_at_every_page(browser, watched, base, run)

        page.goto(base + run)
        page.get_by_label("To confirm").fill(plan_id)
        page.get_by_role("button", name="Sweep").click()
        page.wait_for_selector("[data-done]", timeout=SPARK_MS)
        assert page.locator(".status").first.inner_text() == "swept"
        assert not repository.has(repository.expired)
        assert repository.has(repository.live)
        assert watched.findings() == []
        assert watched.troubles == []


def look_at_every_page(browser: Browser, known: WatchedPage, base: str, run: str) -> None:
    """Each is wide enough at 400 pixels, says nothing on the console, and has no serious finding of axe."""
    mark = run.replace("/runs/", "/marks/")
    names = ("", "/rules", "/runs", "/what-if", "/explain", "/backups")
    started = known.page.request.get(f"{base}/r/garden/runs").text()
    command = re.findall(r'href="(/r/garden/started/[^"]+)"', started)
    paths = [
        "/",
        "/live-sets",
        run,
        mark,
        f"{run}/report",
        command[0],
        *(f"/r/garden{n}" for n in names),
    ]
    for width, scheme in ((1200, "light"), (400, "dark")):
        watched = WatchedPage(browser, width=width, scheme=scheme)
        watched.context.add_cookies(known.context.cookies())  # type: ignore[arg-type]
        for path in paths:
            answer = watched.page.goto(base + path)
            assert answer is not None
            assert answer.status == 200, path
            assert watched.overflow() <= 0, (path, width)
            assert watched.findings() == [], (path, width, scheme)
        assert watched.troubles == []
        watched.context.close()


def test_the_pages_of_a_lake_ask_for_its_keys(browser: Browser, tmp_path: Path) -> None:
    """A wrong secret is refused, the right one leads to the repositories; logging out ends it."""
    port = free_port()
    pages = LakePages(f"http://127.0.0.1:{port}", port)
    with LakeServer(tmp_path, port=port, serving=Serving(pages=pages)) as server:
        watched = WatchedPage(browser, width=400)
        page = watched.page
        page.goto(f"{server.url}/ui")
        assert watched.findings() == []
        for secret in ("wrong", server.secret_access_key):
            page.get_by_label("Access key id").fill(server.access_key_id)
            page.get_by_label("Secret access key").fill(secret)
            page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/ui/")
        page.get_by_role("heading", name="Repositories").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.goto(f"{server.url}/ui/")
        page.get_by_label("Access key id").wait_for()
        assert [t for t in watched.troubles if not t.startswith(_REFUSED)] == []


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
