"""The pages as people use them: a real browser on `lakesweep web`, a mark and a sweep on Spark, wide and narrow, light and dark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.cli.lake_pages import LakePages
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF
from lakesweep.domain.rules import days_text
from lakesweep.lake.server import LakeServer, Serving
from lakesweep_testing.browser import WatchedPage, open_browser
from lakesweep_testing.commands import Repository, lake_environment, new_repository
from lakesweep_testing.nessie_scene import NessieScene
from lakesweep_testing.sample_runs import sample_what_if
from lakesweep_testing.web_site import run_here

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

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


@pytest.fixture(scope="module")
def live_sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The URL of a database of live sets, and the id of one with contents and recorded files."""
    folder = tmp_path_factory.mktemp("nessie")
    url = f"sqlite:///{folder / 'sets.db'}"
    with open_live_sets(url) as sets:
        sets.create_schema(SchemaStrategy.CREATE)
        with NessieScene(folder, live_sets=sets) as scene:
            orders = scene.table("orders")
            orders.append("a.parquet")
            orders.iceberg.write_orphan("nobody's.parquet")
            marked = scene.mark()
            scene.defer(marked)
    return url, str(marked.live_set_id)


@contextmanager
def served(server: LakeServer, sets: str) -> Iterator[str]:
    """`lakesweep web` on the server; its link."""
    environment = {**os.environ, **lake_environment(server)}
    environment["LAKECTL_CONFIG_FILE"] = os.devnull
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


def test_a_mark_a_refused_sweep_a_backup_and_a_sweep(
    server: LakeServer,
    repository: Repository,
    live_sets: tuple[str, str],
    browser: Browser,
    tmp_path: Path,
) -> None:
    """From the printed link to data that is gone, and every page on the way without a trouble."""
    with served(server, live_sets[0]) as link:
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

        ask_about_an_object(page, base, run, repository.expired)
        move_a_slider(page, base, repository)
        look_at_every_page(browser, watched, base, run, f"/live-sets/{live_sets[1]}", "/live-sets")

        stop_a_mark(page, base)
        page.goto(f"{base}/r/garden/backups")
        page.get_by_label("Where to").fill(f"file://{tmp_path}/copies")
        page.get_by_role("button", name="Start a backup").click()
        page.wait_for_selector("[data-done]", timeout=SPARK_MS)
        assert page.locator(".status").first.inner_text() == "backed up"
        assert (tmp_path / "copies" / repository.expired).exists()

        page.goto(base + run)
        page.get_by_label("To confirm").fill(plan_id)
        page.get_by_role("button", name="Sweep").click()
        page.wait_for_selector("[data-done]", timeout=SPARK_MS)
        assert page.locator(".status").first.inner_text() == "swept"
        assert not repository.has(repository.expired)
        assert repository.has(repository.live)
        assert watched.findings() == []
        assert watched.troubles == []


def ask_about_an_object(page: Page, base: str, run: str, address: str) -> None:
    """From the mark to why one of its objects goes."""
    page.goto(base + run.replace("/runs/", "/marks/"))
    page.get_by_role("link", name=f"Explain {address}").click()
    assert page.get_by_label("The object").input_value() == address
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("[data-done]", timeout=SPARK_MS)
    answer = page.locator("pre.answer").inner_text()
    assert f"{address}: GARBAGE" in answer
    assert "superseded on branch main" in answer


def move_a_slider(page: Page, base: str, repository: Repository) -> None:
    """With the keyboard: the figures follow, and nothing has to be sent."""
    saved = repository.folder / LATEST_WHAT_IF
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(json.dumps(sample_what_if().as_json()))
    page.goto(f"{base}/r/garden/what-if")
    slider = page.get_by_label("Every branch")
    slider.focus()
    for key, days in (("Home", 0), ("ArrowRight", 1), ("End", 499)):
        page.keyboard.press(key)
        freed = sample_what_if().curve.at(days).objects
        row = page.locator("#figures tbody tr", has=page.get_by_text("Every branch"))
        row.get_by_role("cell", name=f"{freed:,}", exact=True).first.wait_for()
        assert page.locator("output").first.inner_text() == days_text(days)
    assert page.url == f"{base}/r/garden/what-if"


def stop_a_mark(page: Page, base: str) -> None:
    """Not by one click alone; then as Ctrl-C does it, and its record says so."""
    page.goto(f"{base}/r/garden/runs")
    page.get_by_role("button", name="Start a mark").click()
    page.get_by_role("button", name="Stop").click()
    assert page.locator("#main :invalid").count() > 0
    page.get_by_label("Yes, stop this mark").check()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("[data-done]", timeout=SPARK_MS)
    assert page.get_by_role("button", name="Stop").count() == 0
    assert "stopped" in page.get_by_role("status").inner_text()


LOOKS: list[tuple[int, Literal["light", "dark"]]] = [(1200, "light"), (400, "dark")]


def look_at_every_page(
    browser: Browser,
    known: WatchedPage,
    base: str,
    run: str,
    *more: str,
    looks: Sequence[tuple[int, Literal["light", "dark"]]] = LOOKS,
) -> None:
    """Each is wide enough at 400 pixels, says nothing on the console, and has no serious finding of axe."""
    mark = run.replace("/runs/", "/marks/")
    names = ("", "/rules", "/runs", "/what-if", "/explain", "/backups")
    started = known.page.request.get(f"{base}/r/garden/runs").text()
    command = re.findall(r'href="[^"]*(/r/garden/started/[^"]+)"', started)
    of_repository = [f"/r/garden{name}" for name in names]
    paths = ["/", run, mark, f"{run}/report", command[0], *of_repository, *more]
    for width, scheme in looks:
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
    """A wrong secret is refused, the right one leads to every page; logging out ends it."""
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
        assert [t for t in watched.troubles if not t.startswith(_REFUSED)] == []
        run, repository = marked_run(server, tmp_path / "mark")
        ask_about_an_object(page, f"{server.url}/ui", run, repository.expired)
        look_at_every_page(browser, watched, f"{server.url}/ui", run, looks=LOOKS[1:])
        page.goto(f"{server.url}/ui/")
        page.get_by_role("button", name="Log out").click()
        page.goto(f"{server.url}/ui/")
        page.get_by_label("Access key id").wait_for()
        assert [t for t in watched.troubles if not t.startswith(_REFUSED)] == []


def marked_run(server: LakeServer, folder: Path) -> tuple[str, Repository]:
    """The path of a run that marked a new repository, and the repository."""
    auth = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=auth, timeout=60) as api:
        repository = new_repository(server, api, "garden")
    folder.mkdir()
    environment = {**os.environ, **lake_environment(server)}
    run_here(("mark", "garden", "--output", "json"), environment, folder)
    return f"/r/garden/runs/{json.loads((folder / 'stdout').read_text())['run_id']}", repository


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
