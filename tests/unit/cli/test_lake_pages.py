"""The pages of an embedded lake: its keys log in, and each may do there what it may do everywhere."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lakesweep.cli.lake_pages import LakePages
from lakesweep.lake.api.app import build_app
from lakesweep.lake.api.observing import AuditLog
from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import Credentials
from lakesweep_testing.commands import new_repository
from lakesweep_testing.web_site import Browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    with LakeServer(tmp_path_factory.mktemp("lake")) as server:
        auth = (server.access_key_id, server.secret_access_key)
        with httpx.Client(base_url=server.endpoint, auth=auth) as api:
            new_repository(server, api, "mine")
            new_repository(server, api, "yours")
        yield server


@pytest.fixture
def browser(
    server: LakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Browser]:
    """A browser before it is logged in, and an audit log beside it."""
    monkeypatch.setenv("LAKESWEEP_CACHE", str(tmp_path))
    monkeypatch.setenv("LAKESWEEP_SERVE_SECRET_ACCESS_KEY", "not for others")
    # Workers of a server with several processes get it pickled.
    make = pickle.loads(pickle.dumps(LakePages(server.url, urlsplit(server.url).port or 0)))
    audit_log = AuditLog(tmp_path / "audit.log")
    app = build_app(server.lake, pages=make(server.lake), audit_log=audit_log)
    yield Browser(app, base="/ui", origin=server.url)
    audit_log.close()


def log_in(browser: Browser, key: Credentials | LakeServer, secret: str | None = None) -> int:
    given = key.secret_access_key if secret is None else secret
    fields = {"access_key_id": key.access_key_id, "secret_access_key": given}
    return browser.post("/login", fields).status_code


def test_a_key_of_the_lake_logs_in(server: LakeServer, browser: Browser, tmp_path: Path) -> None:
    """A wrong secret does not; both are on record, and no secret is."""
    assert browser.get("/").status_code == 401
    assert log_in(browser, server, "wrong") == 401
    assert browser.get("/").status_code == 401
    assert log_in(browser, server) == 200
    page = browser.text("/r/mine")
    assert "Start a mark" in page
    assert str(server.lake.settings.data_dir) not in page
    assert browser.send("GET", "/ui").headers["location"] == "/ui/"
    record = (tmp_path / "audit.log").read_text()
    assert '"user": "admin"' in record
    assert '"operation": "page repository", ' in record
    assert '"repository": "mine"' in record
    assert server.secret_access_key not in record


def test_a_key_may_do_on_a_page_what_it_may_do_elsewhere(
    server: LakeServer, browser: Browser
) -> None:
    """One that only reads starts nothing; one of some repositories sees no other, and deletes nothing for good."""
    keys = server.lake.credentials
    reader = keys.add("reader", is_read_only=True)
    limited = keys.add("limited", repositories=["mine"])
    try:
        log_in(browser, reader)
        assert "Start a mark" not in browser.text("/r/mine")
        for path in ("/runs", "/rules", "/runs/x/sweep", "/runs/x/resume"):
            assert browser.post(f"/r/mine{path}", {}).status_code == 403
        other = Browser(browser.app, "/ui", browser.origin)
        log_in(other, limited)
        assert "yours" not in other.text("/")
        assert other.get("/r/yours").status_code == 403
        assert other.get("/r/yours/rules").status_code == 403
        assert "Start a mark" in other.text("/r/mine")
        assert other.post("/r/mine/runs/x/sweep", {}).status_code == 403
    finally:
        keys.revoke("reader")
        keys.revoke("limited")


def test_a_session_ends_with_its_key(server: LakeServer, browser: Browser) -> None:
    """A revoked key is refused at the next request, a rotated one too."""
    keys = server.lake.credentials
    log_in(browser, keys.add("leaver"))
    assert browser.get("/").status_code == 200
    rotated = keys.rotate("leaver")
    assert browser.get("/").status_code == 401
    log_in(browser, rotated)
    assert browser.get("/").status_code == 200
    keys.revoke("leaver")
    assert browser.get("/").status_code == 401


def test_commands_of_a_caller_have_the_callers_key_alone(
    server: LakeServer, browser: Browser
) -> None:
    """What the server itself was started with is not handed on."""
    from lakesweep.cli.lake_pages import LakeAccounts

    caller = LakeAccounts(server.lake, server.url).find(server.access_key_id)
    assert caller is not None
    assert caller.environment["LAKESWEEP_SECRET_ACCESS_KEY"] == server.secret_access_key
    assert "not for others" not in caller.environment.values()
    assert server.secret_access_key not in repr(caller)


def test_the_other_roads_of_the_server_are_as_before(server: LakeServer, browser: Browser) -> None:
    """REST asks for its own credentials; a session is none. A bucket named `ui` is the gateway's."""
    log_in(browser, server)
    assert browser.send("GET", "/api/v1/repositories").status_code == 401
    assert browser.send("GET", "/uix").status_code == 401
    signed = {"authorization": "AWS4-HMAC-SHA256 Credential=x"}
    assert "<Error>" in browser.send("GET", "/ui/key", headers=signed).text
