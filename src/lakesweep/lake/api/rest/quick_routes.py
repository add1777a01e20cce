"""The busiest routes, served without the web framework's machinery.

Solving a handler's dependencies, checking its parameters and finding its route take several times as long as a look-up of
an object does. A quick route is an ordinary one of its router, so that every table of routes has it; but its handler takes
the request as it came, and requests for it never reach the framework.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote_plus

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.lake.api.rest.dependencies import ApiState, PageQuery
from lakesweep.lake.api.rest.errors import answer_error, is_bug
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.values import MAX_PAGE

__all__ = ["QuickRequest", "QuickRoutes", "quick_route"]

Gate = Callable[[Request], Awaitable[None]]
Handler = Callable[["QuickRequest"], Awaitable[Response]]

_DEFAULT_PAGE = 100
_FLAGS = {
    **dict.fromkeys(("true", "1", "on", "t", "yes", "y"), True),
    **dict.fromkeys(("false", "0", "off", "f", "no", "n"), False),
}


class QuickRequest(Request):
    """A request with its query read by name; what is not valid is refused as the other routes refuse it."""

    @property
    def api(self) -> ApiState:
        """What the app serves."""
        state: ApiState = self.scope["app"].state.api
        return state

    def place(self, name: str) -> str:
        """A part of the path."""
        part: str = self.scope["path_params"][name]
        return part

    def text(self, name: str, default: str | None = None) -> str:
        """A parameter of the query; without a default it must be there and not be empty."""
        value = self.query_params.get(name, default)
        if value is None or (default is None and not value):
            raise _not_valid(name, "Field required" if value is None else "may not be empty")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A parameter that is true or false."""
        value = self.query_params.get(name)
        if value is None:
            return default
        if value.lower() not in _FLAGS:
            raise _not_valid(name, "should be true or false")
        return _FLAGS[value.lower()]

    def page(self) -> PageQuery:
        """Which part of a list is asked for."""
        try:
            amount = int(self.query_params.get("amount", _DEFAULT_PAGE))
        except ValueError:
            raise _not_valid("amount", "should be a whole number") from None
        if not -1 <= amount <= MAX_PAGE:
            raise _not_valid("amount", f"should be from -1 to {MAX_PAGE}")
        # lakeFS reads zero and minus one as "as many as you like to send".
        return {
            "prefix": self.text("prefix", ""),
            "after": self.text("after", ""),
            "amount": amount if amount > 0 else _DEFAULT_PAGE,
        }

    @property
    def query_params(self) -> dict[str, str]:  # type: ignore[override]
        """The query, parsed once for all who ask. Of several with one name the last counts, as elsewhere."""
        found: dict[str, str] | None = self.scope.get("quick_query")
        if found is None:
            query: str = self.scope["query_string"].decode("latin-1")
            parts = [part.partition("=") for part in query.split("&") if part]
            found = {unquote_plus(name): unquote_plus(value) for name, _, value in parts}
            self.scope["quick_query"] = found
        return found


class _QuickRoute(APIRoute):
    pass


def quick_route(router: APIRouter, method: str, path: str) -> Callable[[Handler], Handler]:
    """Add a handler to the router as a quick route."""

    def add(handler: Handler) -> Handler:
        router.add_api_route(
            path, handler, methods=[method], response_model=None, route_class_override=_QuickRoute
        )
        return handler

    return add


class QuickRoutes:
    """ASGI app that serves the quick routes itself and hands all other requests on.

    Args:
        app: the app that the routers belong to, which serves all other routes.
        gates: what every request has to pass before its handler.
    """

    def __init__(
        self, app: FastAPI, routers: Iterable[APIRouter], prefix: str, gates: Sequence[Gate] = ()
    ) -> None:
        self._app = app
        self._prefix = prefix
        self._gates = gates
        self._routes: dict[str, list[tuple[APIRoute, Handler]]] = {}
        for router in routers:
            for route in router.routes:
                if isinstance(route, _QuickRoute):
                    for method in route.methods or ():
                        self._routes.setdefault(method, []).append((route, route.endpoint))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        found = self._find(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        route, handler, parts = found
        scope["app"], scope["route"], scope["path_params"] = self._app, route, parts
        await self._serve(handler, scope, receive, send)

    def _find(self, scope: Scope) -> tuple[APIRoute, Handler, dict[str, Any]] | None:
        path: str = scope["path"]
        if not path.startswith(self._prefix):
            return None
        below = path[len(self._prefix) :]
        for route, handler in self._routes.get(scope["method"], ()):
            if match := route.path_regex.match(below):
                return route, handler, match.groupdict()
        return None

    async def _serve(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        request = QuickRequest(scope, receive)
        is_started = False

        async def note_start(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            for gate in self._gates:
                await gate(request)
            response: ASGIApp = await handler(request)
            await response(scope, receive, note_start)
        except Exception as error:
            if is_started:
                raise
            await answer_error(request, error)(scope, receive, send)
            if is_bug(error):
                raise


def _not_valid(name: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The request is not valid, so nothing was done: query.{name}: {problem}."
    )
