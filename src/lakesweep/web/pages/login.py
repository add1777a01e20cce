"""Logging in and out. A session begins here and nowhere else."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from lakesweep.web.admission import read_form, site_of
from lakesweep.web.callers import Caller
from lakesweep.web.rendering import render
from lakesweep.web.sessions import LIFE_SECONDS

__all__ = ["open_router", "router", "show_login"]

open_router = APIRouter()  # needs no session
router = APIRouter()


@open_router.get("/login", name="login")
async def log_in_by_link(request: Request, token: str = "") -> Response:
    """The link that `lakesweep web` prints. Where people log in with keys, the form for them."""
    accounts = site_of(request).accounts
    if accounts.asks_for_keys:
        return show_login(request)
    caller = await run_in_threadpool(accounts.log_in, "", token)
    if caller is None:
        return show_login(request, said="This link was used, or is none of this server's.")
    return _begun(request, caller)


@open_router.post("/login", name="log_in")
async def log_in_by_key(request: Request) -> Response:
    """The form with an access key."""
    accounts = site_of(request).accounts
    form = await read_form(request)
    if not accounts.asks_for_keys:
        return show_login(request)
    given = (form.get("access_key_id", "").strip(), form.get("secret_access_key", "").strip())
    caller = await run_in_threadpool(accounts.log_in, *given)
    if caller is None:
        return show_login(request, said="No key of this lake has that id and that secret.")
    return _begun(request, caller)


@router.post("/logout", name="log_out")
def log_out(request: Request) -> Response:
    """Remove the session's cookie."""
    site = site_of(request)
    del request.state.caller
    answer = render(
        request, "login.html", asks_for_keys=site.accounts.asks_for_keys, said="You are logged out."
    )
    answer.delete_cookie(site.cookie, path=f"{site.base}/", httponly=True, samesite="strict")
    return answer


def show_login(request: Request, said: str = "") -> Response:
    """How to log in, in place of what was asked for."""
    asks = site_of(request).accounts.asks_for_keys
    return render(request, "login.html", 401, asks_for_keys=asks, said=said)


def _begun(request: Request, caller: Caller) -> Response:
    """A page that leads on by itself: after a redirect from elsewhere a browser would hold the new cookie back."""
    site = site_of(request)
    answer = render(request, "logged_in.html")
    answer.set_cookie(
        site.cookie,
        site.sessions.begin(caller.id),
        max_age=LIFE_SECONDS,
        path=f"{site.base}/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer
