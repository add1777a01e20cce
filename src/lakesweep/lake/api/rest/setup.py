"""Health, first setup, login, and who one is."""

from __future__ import annotations

import time

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from lakesweep.lake.api.auth import issue_token
from lakesweep.lake.api.metrics import CONTENT_TYPE
from lakesweep.lake.api.replies import error_reply, json_reply, no_content
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep, StateDep
from lakesweep.lake.api.rest.models import LoginBody, SetupBody
from lakesweep.lake.api.rest.wire import unix_seconds
from lakesweep.lake.errors import ConflictError

router = APIRouter()
health_router = APIRouter()


@health_router.get("/_health")
async def check_process() -> Response:
    """Whether the process answers, for whoever restarts it."""
    return PlainTextResponse("alive")


@health_router.get("/_ready")
def check_ready(state: StateDep) -> Response:
    """Whether disk and ref store answer, for whoever sends requests here."""
    found = state.readiness.check()
    return json_reply(found, 200 if set(found.values()) == {"ok"} else 503)


@health_router.get("/metrics")
def show_metrics(state: StateDep) -> Response:
    """Numbers for Prometheus."""
    return Response(state.metrics.render(), media_type=CONTENT_TYPE)


@router.get("/healthcheck")
async def check_health() -> Response:
    """Whether the API answers."""
    return no_content()


@router.get("/setup_lakefs")
def get_setup_state(lake: LakeDep) -> Response:
    """Whether the first user exists."""
    return json_reply(
        {
            "state": "initialized" if lake.credentials.is_initialized() else "not_initialized",
            "comm_prefs_missing": False,
            "login_config": {
                "RBAC": "none",
                "login_url": "",
                "login_url_method": "none",
                "login_cookie_names": [],
                "logout_url": "",
            },
        }
    )


@router.post("/setup_lakefs")
def set_up(lake: LakeDep, body: SetupBody) -> Response:
    """Create the first user; the only reply that ever shows a secret."""
    key = body.key
    try:
        credentials = lake.credentials.setup_first_user(
            body.username,
            access_key_id=key.access_key_id if key else None,
            secret_access_key=key.secret_access_key if key else None,
        )
    except ConflictError:
        return error_reply(409, "The lake has its first user already; nothing was changed.")
    return json_reply(
        {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "creation_date": unix_seconds(credentials.creation_date),
        }
    )


@router.post("/auth/login")
async def login(state: StateDep, body: LoginBody) -> Response:
    """Exchange an access key for a token."""
    credentials = await state.authenticator.check_secret(body.access_key_id, body.secret_access_key)
    if credentials is None:
        return error_reply(401, "The request carries no valid credentials.")
    token = issue_token(credentials, time.time())
    return json_reply({"token": token.token, "token_expiration": token.expires_at})


@router.get("/user")
async def get_current_user(caller: CallerDep) -> Response:
    """Who the caller is."""
    return json_reply(
        {
            "user": {
                "id": caller.username,
                "creation_date": unix_seconds(caller.creation_date),
                "friendly_name": "",
                "email": "",
            }
        }
    )
