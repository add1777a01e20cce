"""What every request passes before any route is looked for, and every answer on its way out.

The name in `Host` must be one of ours, or a page elsewhere could have its own name point at this server. What changes
something must come from a page of ours. No page of ours may stand in a frame, run a script that is not a file of the
package, or load anything from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["MOST_BODY_BYTES", "GuardRequests", "loopback_hosts"]

MOST_BODY_BYTES = 64 * 1024
# Pages ask the server that they are part of, whose threads are not to be taken by pages alone.
_MOST_AT_ONCE = 8

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with forms of our own.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def loopback_hosts(port: int) -> frozenset[str]:
    """What a browser on this machine may call a server on this port."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class GuardRequests:
    """ASGI middleware in front of all pages."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._at_once = anyio.CapacityLimiter(_MOST_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with headers added to its answer."""
        if scope["type"] != "http":
            return  # no lifespan, no websockets

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        async with self._at_once:
            await self._app(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts or len(headers.getlist("host")) != 1:
            return PlainTextResponse(
                f"This server does not go by the name {host!r}. Nothing was done. "
                "`lakesweep web --allow-host` and `lakesweep serve --ui-url` give it other names.",
                status_code=421,
            )
        if method in ("GET", "HEAD"):
            return None
        origin = headers.get("origin", "").lower()
        is_ours = origin in (f"http://{host}", f"https://{host}")
        if not is_ours or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse(
                "This request does not come from a page of this server. Nothing was done.",
                status_code=403,
            )
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MOST_BODY_BYTES:
            return PlainTextResponse(
                f"A form has at most {MOST_BODY_BYTES} bytes, and says how many. Nothing was done.",
                status_code=413,
            )
        return None
