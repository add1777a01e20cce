"""Pages over an embedded lake, asked in this process. What they start runs here too, without Spark."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from starlette.types import ASGIApp

from lakesweep.cli.main import run
from lakesweep.lake.server import LakeServer
from lakesweep.settings.load import load_settings
from lakesweep.web.app import build_pages
from lakesweep.web.callers import Accounts, Caller, LinkAccount
from lakesweep.web.commands import Commands
from lakesweep.web.site import Site
from lakesweep_testing.commands import lake_environment
from lakesweep_testing.inprocess import InProcessEngine

__all__ = ["HOST", "ORIGIN", "Browser", "Pages", "browse", "local_caller", "run_here", "site_of"]

HOST = "127.0.0.1:8210"
ORIGIN = f"http://{HOST}"


@dataclass
class Browser:
    """What a browser of one user does: keeps cookies, says where forms come from, fills in their tokens."""

    app: ASGIApp
    base: str = ""
    origin: str = ORIGIN
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    _form_token: str = ""

    def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        """A request to any path of the server; redirects are not followed."""
        return asyncio.run(self._send(method, path, how))

    async def _send(self, method: str, path: str, how: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=self.origin, cookies=self.cookies
        ) as client:
            answer = await client.request(method, path, **how)
            self.cookies = client.cookies
        return answer

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a page."""
        return self.send("GET", self.base + path, headers=headers)

    def post(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a form that a page of ours could have, unless `fields` or `headers` say otherwise."""
        content = {"form_token": self.form_token(), **fields}
        sent = {"origin": self.origin, **(headers or {})}
        return self.send("POST", self.base + path, data=content, headers=sent)

    def form_token(self) -> str:
        """The token in the forms of this session; empty for whoever is not logged in."""
        if not self._form_token:
            found = re.search(r'name="form_token" value="([^"]*)"', self.get("/").text)
            self._form_token = found[1] if found else ""
        return self._form_token

    def text(self, path: str) -> str:
        """A page that is there."""
        answer = self.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.text


@dataclass
class Pages:
    """One site, with the links that it showed and the commands that it started."""

    site: Site
    links: list[str] = field(default_factory=list)

    def browser(self, *, log_in: bool = True) -> Browser:
        """A browser of its own, logged in with the last link."""
        browser = Browser(build_pages(self.site), self.site.base)
        if log_in:
            assert browser.get(f"/login?token={self.links[-1]}").status_code == 200
        return browser


def local_caller(server: LakeServer, **limits: Any) -> Caller:
    """Whoever started `lakesweep web` on the server's repositories."""
    inherited = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    environment = {**inherited, **lake_environment(server)}
    environment["LAKECTL_CONFIG_FILE"] = os.devnull
    return Caller(
        "local", "you", settings=load_settings(env=environment), environment=environment, **limits
    )


def browse(caller: Caller, folder: Path, **options: Any) -> Pages:
    """Pages of `lakesweep web` for this caller."""
    links: list[str] = []
    account = LinkAccount(caller, links.append)
    account.new_link()
    site = site_of(account, folder, **options)
    return Pages(site, links)


def site_of(accounts: Accounts, folder: Path, **options: Any) -> Site:
    """A site that is called by `HOST`, and whose commands run in this process."""
    return Site(accounts, Commands(folder, run_here), hosts=frozenset({HOST}), **options)


def run_here(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    """Run a command to its end in this process, its output in the folder."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch("lakesweep.cli.running.start_engine", return_value=InProcessEngine()),
        mock.patch("lakesweep.cli.what_if.start_engine", return_value=InProcessEngine()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        run(list(words))
    (folder / "stdout").write_text(out.getvalue())
    (folder / "stderr").write_text(err.getvalue())
