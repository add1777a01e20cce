"""The pages of an embedded lake: its access keys log in, and each caller works with their own key."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakesweep.cli.web import commands_folder, pages_packages
from lakesweep.lake.api.app import PAGES_PATH
from lakesweep.lake.api.auth import tell_known
from lakesweep.lake.api.observing import note
from lakesweep.lake.hidden_paths import HiddenPaths
from lakesweep.settings.load import load_settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lakesweep.lake.lake import Lake
    from lakesweep.lake.values import Credentials
    from lakesweep.web.callers import Caller

__all__ = ["LakeAccounts", "LakePages"]


@dataclass(frozen=True, slots=True)
class LakePages:
    """Makes the pages of a lake; it can be sent to the processes that serve it.

    Args:
        url: where browsers, and the commands that the pages start, reach the server.
        port: the port that it listens on.
    """

    url: str
    port: int

    def __call__(self, lake: Lake) -> ASGIApp:
        """The pages of this lake, below `PAGES_PATH`."""
        with pages_packages():
            from lakesweep.web.app import build_pages
            from lakesweep.web.commands import Commands
            from lakesweep.web.security import loopback_hosts
            from lakesweep.web.site import Site

        site = Site(
            accounts=LakeAccounts(lake, self.url),
            commands=Commands(commands_folder(self.url)),
            hosts=loopback_hosts(self.port) | {urlsplit(self.url).netloc},
            base=PAGES_PATH,
            cookie=f"lakesweep-{self.port}",
            hide=HiddenPaths(lake.settings.data_dir).take_out_of,
        )
        return _Noted(build_pages(site), lake.credentials.find)


class LakeAccounts:
    """The users of a lake. A key that was revoked or rotated ends its sessions with their next request."""

    asks_for_keys = True

    def __init__(self, lake: Lake, url: str) -> None:
        self.signing_key = lake.credentials.signing_secret("pages")
        self._find = lake.credentials.find
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LAKESWEEP_SERVE_")}
        self._environment = environment | {
            "LAKESWEEP_ENDPOINT_URL": url,
            "LAKESWEEP_NAMESPACE_ROOT": str(lake.settings.data_dir),
        }
        self._caller = lru_cache(maxsize=64)(self._make_caller)

    def log_in(self, name: str, secret: str) -> Caller | None:
        """The user whose access key this is."""
        key = self._find(name)
        if key is None or not hmac.compare_digest(
            key.secret_access_key.encode(), secret.encode("utf-8", "surrogatepass")
        ):
            return None
        return self._caller(key)

    def find(self, caller_id: str) -> Caller | None:
        """The user of a session."""
        key = self._find(caller_id)
        return None if key is None else self._caller(key)

    def _make_caller(self, key: Credentials) -> Caller:
        from lakesweep.web.callers import Caller

        variables = {
            **self._environment,
            "LAKESWEEP_ACCESS_KEY_ID": key.access_key_id,
            "LAKESWEEP_SECRET_ACCESS_KEY": key.secret_access_key,
        }
        return Caller(
            id=key.access_key_id,
            name=key.username,
            settings=load_settings(env=variables),
            environment=variables,
            repositories=key.repositories,
            may_write=not key.is_read_only,
            # Garbage is deleted with the server's own rights to the store, which are its operator's to use.
            may_sweep=not key.is_read_only and key.repositories is None,
        )


class _Noted:
    """ASGI middleware that tells the lake's own records who asked for which page."""

    def __init__(self, app: ASGIApp, find: Callable[[str], Credentials | None]) -> None:
        self._app = app
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its caller is known when it is answered."""

        async def send_noted(message: Message) -> None:
            caller: Caller | None = scope.get("state", {}).get("caller")
            if message["type"] == "http.response.start" and caller is not None:
                repository = scope.get("path_params", {}).get("repo")
                note(scope, self._find(caller.id), f"page {scope['route'].name}", repository)
                tell_known(scope)
            await send(message)

        await self._app(scope, receive, send_noted)
