"""What stands in front of every page: names of the server, origins of forms, tokens, sessions, frames."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from lakesweep.errors import ConfigError
from lakesweep.lake.server import LakeServer
from lakesweep.web import app as web_app
from lakesweep.web.callers import Need
from lakesweep.web.commands import Command
from lakesweep.web.sessions import LIFE_SECONDS, Sessions
from lakesweep_testing.web_site import HOST, ORIGIN, Browser, Pages, browse, local_caller

pytestmark = pytest.mark.slow

ROUTES = [
    (method, route.path)
    for page in web_app._PAGES
    for route in page.router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]
GETS = [path for method, path in ROUTES if method == "GET"]
POSTS = [path for method, path in ROUTES if method == "POST"]


def filled(path: str) -> str:
    """A path of the repository that tests have."""
    for name in ("run_id", "mark_id", "command_id", "live_set_id"):
        path = path.replace(f"{{{name}}}", "x")
    return path.replace("{repo}", "garden")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_sees_a_page_without_a_session(pages: Pages, method: str, path: str) -> None:
    """Every route but logging in asks for one, and a cookie of one's own making is none."""
    stranger = pages.browser(log_in=False)
    for cookie in ("", "x.y", Sessions(b"another key").begin("local")):
        stranger.cookies.set(pages.site.cookie, cookie)
        answer = stranger.send(method, filled(path), headers={"origin": ORIGIN}, data={"a": "b"})
        assert answer.status_code == 401, answer.text
        assert "garden" not in answer.text


@pytest.mark.parametrize("path", POSTS)
def test_a_form_needs_the_token_of_its_own_session(pages: Pages, path: str) -> None:
    """Neither none, nor a wrong one, nor another session's will do."""
    browser, other = pages.browser(), pages.browser()
    for token in ("", "x", other.form_token()):
        answer = browser.post(filled(path), {"form_token": token})
        assert answer.status_code == 403
        assert "Nothing was done" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_comes_from_a_page_of_ours(browser: Browser, headers: dict[str, str]) -> None:
    """With the right token even: another page that learnt it can't use it."""
    answer = browser.post("/r/garden/runs", {}, headers)
    assert answer.status_code == 403
    assert "does not come from a page of this server" in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "", f"{HOST}.evil"])
def test_the_server_answers_to_its_own_names_only(browser: Browser, host: str) -> None:
    """A name elsewhere that points at this address gives its pages nothing."""
    answer = browser.send("GET", "/", headers={"host": host})
    assert answer.status_code == 421
    assert "garden" not in answer.text


def test_no_page_can_be_framed_or_run_what_is_not_ours(pages: Pages) -> None:
    """On pages, refusals, errors and files alike."""
    browser = pages.browser()
    stranger = pages.browser(log_in=False)
    answers = [browser.get(path) for path in ("/", "/nowhere", "/static/pages.js", "/r/nobody")]
    answers += [stranger.get("/"), browser.send("GET", "/", headers={"host": "evil"})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_templates_hold_no_script_or_style_of_their_own() -> None:
    """The policy would stop them, and a reader would look for them in vain."""
    for template in (Path(web_app.__file__).parent / "templates").glob("*.html"):
        text = template.read_text("utf-8")
        assert " style=" not in text, template
        assert re.search(r"\son[a-z]+=", text) is None, template
        assert "|safe" not in text, template
        assert "http://" not in text, template
        assert "https://" not in text, template


def test_a_link_logs_in_once(pages: Pages) -> None:
    """Whoever finds it in a history or a log comes too late; the next link is shown to the server's owner."""
    first = pages.links[-1]
    answer = pages.browser(log_in=False).get(f"/login?token={first}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert len(pages.links) == 2
    late = pages.browser(log_in=False)
    assert late.get(f"/login?token={first}").status_code == 401
    assert late.get("/login?token=").status_code == 401
    assert late.get("/").status_code == 401
    assert len(pages.links) == 2


def test_logging_out_ends_the_session(browser: Browser) -> None:
    """The cookie goes."""
    assert browser.get("/").status_code == 200
    assert browser.post("/logout", {}).status_code == 200
    assert browser.get("/").status_code == 401


def test_a_session_ends_by_itself() -> None:
    """And its end can't be moved by whoever has the cookie."""
    now = 1e9
    sessions = Sessions(b"key", clock=lambda: now)
    cookie = sessions.begin("a")
    assert sessions.read(cookie) is not None
    body, _, signature = cookie.partition(".")
    for changed in (f"{body}x.{signature}", f"{body}.", body, f".{signature}", "é.è"):
        assert sessions.read(changed) is None
    now += LIFE_SECONDS
    assert sessions.read(cookie) is None


def test_a_form_is_small(browser: Browser) -> None:
    """What announces more, or does not say, is refused before it is read."""
    answer = browser.post("/r/garden/rules", {"rules": "x" * 70_000})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", GETS)
def test_a_repository_beyond_reach_is_not_shown(
    server: LakeServer, tmp_path: Path, path: str
) -> None:
    """`lakesweep web --repo other` shows nothing of this one, not even whether it exists."""
    browser = browse(local_caller(server, repositories=frozenset({"other"})), tmp_path).browser()
    answer = browser.get(filled(path))
    if "{repo}" in path:
        assert answer.status_code == 403
        assert browser.get(filled(path).replace("garden", "nobody")).status_code == 403
    else:
        assert "garden" not in answer.text


def test_rights_are_asked_for_by_every_form(server: LakeServer, tmp_path: Path) -> None:
    """Who may write may mark and not sweep; who may only read can do neither."""
    writer = browse(local_caller(server, may_sweep=False), tmp_path / "w").browser()
    reader = browse(
        local_caller(server, may_sweep=False, may_write=False), tmp_path / "r"
    ).browser()
    for path in ("/r/garden/runs/x/sweep", "/r/garden/runs/x/resume"):
        assert writer.post(path, {"plan_id": "x"}).status_code == 403
    for path in (p for p in POSTS if "{repo}" in p and not p.endswith(("/explain", "/stop"))):
        assert reader.post(filled(path), {}).status_code == 403
    assert '<form class="box"' not in reader.text("/r/garden")
    assert "Start a mark" in writer.text("/r/garden")


def test_every_route_that_changes_something_has_its_need(
    monkeypatch: pytest.MonkeyPatch, pages: Pages
) -> None:
    """A route that nobody decided about can't be served."""
    monkeypatch.setattr(web_app, "NEED_OF_POST", {"log_out": Need.READ})
    with pytest.raises(LookupError, match="set_rules"):
        web_app.build_routes(pages.site)


def test_few_commands_run_at_once(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each may start a Spark."""
    monkeypatch.setattr(Command, "is_running", property(lambda self: True))
    commands, caller = pages.site.commands, pages.site.accounts.find("local")
    assert caller is not None
    for _ in range(4):
        commands.start(caller, "garden", ["version"])
    with pytest.raises(ConfigError, match="Nothing was started"):
        commands.start(caller, "garden", ["version"])
