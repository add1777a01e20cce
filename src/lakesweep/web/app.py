"""The pages as one ASGI app, behind their guards."""

from __future__ import annotations

import logging
from http import HTTPStatus
from pathlib import Path

from fastapi import Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from lakesweep.errors import (
    CatalogDeniedError,
    CatalogNotFoundError,
    ConfigError,
    LakesweepError,
    UnsafeToSweepError,
)
from lakesweep.report.html.style import drawing_style
from lakesweep.web.admission import NEED_OF_POST, NotLoggedInError, admit
from lakesweep.web.callers import NotAllowedError
from lakesweep.web.pages import (
    backups,
    commands,
    explain,
    live_sets,
    login,
    marks,
    repositories,
    rules,
    runs,
    what_if,
)
from lakesweep.web.rendering import render
from lakesweep.web.security import GuardRequests
from lakesweep.web.site import Site

__all__ = ["STATIC", "build_pages", "build_routes"]

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
_PAGES = (
    *(login, repositories, rules, runs, commands, marks),
    *(explain, what_if, backups, live_sets),
)

# The first that fits: what a browser is told of an error of ours.
_STATUS_OF_KIND = dict.fromkeys(("no-run", "no-mark", "no-command", "no-live-sets"), 404)
_STATUS_OF_ERROR: tuple[tuple[type[LakesweepError], int], ...] = (
    (NotAllowedError, 403),
    (CatalogDeniedError, 403),
    (CatalogNotFoundError, 404),
    (ConfigError, 400),
    (UnsafeToSweepError, 409),
    (LakesweepError, 502),
)


def build_pages(site: Site) -> ASGIApp:
    """Everything that a browser asks for."""
    return GuardRequests(build_routes(site), site.hosts)


def build_routes(site: Site) -> FastAPI:
    """Every route, without the guards in front of them. Each of them but logging in needs a session."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.site = site
    app.include_router(login.open_router, prefix=site.base)
    for page in _PAGES:
        app.include_router(page.router, prefix=site.base, dependencies=[Depends(admit)])
    _refuse_unknown_needs()
    app.mount(f"{site.base}/static", StaticFiles(directory=STATIC))
    app.add_api_route(f"{site.base}/drawings.css", _drawings_style, name="drawings")
    if site.base:
        app.add_api_route(site.base, lambda: RedirectResponse(f"{site.base}/"), name="begin")
    app.exception_handler(NotLoggedInError)(_not_logged_in)
    app.exception_handler(LakesweepError)(_refused)
    app.exception_handler(HTTPException)(_not_found)
    app.exception_handler(Exception)(_broken)
    return app


def _refuse_unknown_needs() -> None:
    """Refuse to serve a route that changes something and whose need nobody decided."""
    routes = [route for page in _PAGES for route in page.router.routes]
    for route in routes:
        assert isinstance(route, APIRoute)
        if "POST" in (route.methods or ()) and route.name not in NEED_OF_POST:
            raise LookupError(f"no need in the table of web/admission.py for {route.name}")


def _drawings_style() -> Response:
    """The colours and lines of drawings, which reports carry in themselves."""
    return Response(drawing_style(), media_type="text/css")


def _not_logged_in(request: Request, error: Exception) -> Response:
    return login.show_login(request)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, LakesweepError)
    status = _STATUS_OF_KIND.get(error.kind) or next(
        status for kind, status in _STATUS_OF_ERROR if isinstance(error, kind)
    )
    return _error_page(request, status, error.message)


def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error_page(request, error.status_code, "There is no such page.")


def _broken(request: Request, error: Exception) -> Response:
    logger.exception("%s %s failed", request.method, request.url.path)
    said = f"This is a bug of ours: {type(error).__name__}. The server's log has more."
    return _error_page(request, 500, said)


def _error_page(request: Request, status: int, message: str) -> Response:
    title = HTTPStatus(status).phrase
    return render(request, "error.html", status, title=title, message=message)
