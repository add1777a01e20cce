"""Errors tell clients what went wrong, and nothing about where on the server's disk it lies."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.lake.hidden_paths import HiddenPaths


class HidePaths:
    """ASGI middleware that takes the server's own paths out of every error's body, whoever wrote it."""

    def __init__(self, app: ASGIApp, hidden: HiddenPaths) -> None:
        self._app = app
        self._hidden = hidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass replies on as they are, errors once their body is known."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def send_hidden(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                held.append(message)
                return
            if not held:
                await send(message)
                return
            start = held[0]
            held.append(message)
            if message.get("more_body", False):
                return
            body = b"".join(piece.get("body", b"") for piece in held[1:])
            held.clear()
            shown = self._hidden.take_out_of(body)
            if shown != body:
                start["headers"] = [
                    (name, str(len(shown)).encode() if name == b"content-length" else value)
                    for name, value in start["headers"]
                ]
            await send(start)
            await send({"type": "http.response.body", "body": shown})

        await self._app(scope, receive, send_hidden)
