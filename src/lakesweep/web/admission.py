"""Who gets to a route: a session, the caller's rights, and for what changes something the session's own token."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from lakesweep.web.callers import Caller, Need, NotAllowedError
from lakesweep.web.site import Site

__all__ = ["NEED_OF_POST", "NotLoggedInError", "admit", "caller_of", "form_of", "site_of"]

# A route that changes something and is not in this table can't be built.
NEED_OF_POST = {
    "log_out": Need.READ,
    "set_rules": Need.WRITE,
    "start_mark": Need.WRITE,
    "start_explain": Need.READ,
    "start_what_if": Need.WRITE,
    "start_backup": Need.COPY,
    "stop_command": Need.READ,  # and what starting the command needed
    "start_sweep": Need.SWEEP,
    "resume_sweep": Need.SWEEP,
}


class NotLoggedInError(Exception):
    """The request carries no valid session."""


async def admit(request: Request) -> None:
    """Let the request pass to its route, with its caller and its form in its state, or raise."""
    site = site_of(request)
    session = site.sessions.read(request.cookies.get(site.cookie, ""))
    if session is None:
        raise NotLoggedInError
    caller = await run_in_threadpool(site.accounts.find, session.caller_id)
    if caller is None:
        raise NotLoggedInError
    request.state.caller, request.state.form_token = caller, session.form_token
    need = (
        Need.READ
        if request.method in ("GET", "HEAD")
        else NEED_OF_POST[request.scope["route"].name]
    )
    if request.method not in ("GET", "HEAD"):
        request.state.form = await read_form(request)
        given = request.state.form.get("form_token", "")
        if not hmac.compare_digest(given.encode(), session.form_token.encode()):
            raise NotAllowedError(
                "The form does not belong to this session. Nothing was done. Load the page again.",
                kind="form-token",
            )
    caller.check(need, request.path_params.get("repo"))


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of a field that is there twice, the last."""
    return dict(parse_qsl((await request.body()).decode("utf-8", "replace")))


def site_of(request: Request) -> Site:
    """The site that the request came to."""
    site: Site = request.app.state.site
    return site


def caller_of(request: Request) -> Caller:
    """Who asks; only behind `admit`."""
    caller: Caller = request.state.caller
    return caller


def form_of(request: Request) -> dict[str, str]:
    """The fields of the form; only behind `admit`."""
    form: dict[str, str] = request.state.form
    return form
