"""What handlers ask for by type: the lake, the caller, a page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Query, Request

from lakesweep.lake.api.auth import CREDENTIALS_KEY, Authenticator
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.api.metrics import Metrics
from lakesweep.lake.errors import InvalidRequestError, UnsupportedOperationError
from lakesweep.lake.lake import Lake
from lakesweep.lake.readiness import Readiness
from lakesweep.lake.values import MAX_PAGE, Credentials

_DEFAULT_PAGE = 100


@dataclass(frozen=True, slots=True)
class ApiState:
    """What one app serves, kept at `app.state.api`."""

    lake: Lake
    authenticator: Authenticator
    metrics: Metrics
    readiness: Readiness
    lanes: Lanes


class PageQuery(TypedDict):
    """Which part of a list the client wants. `after` is exclusive."""

    prefix: str
    after: str
    amount: int


async def check_text(request: Request) -> None:
    """Refuse a URL with bytes that are no UTF-8: each would be read as one and the same sign, and so name other things."""
    for part in (request.scope.get("raw_path", b""), request.scope["query_string"]):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError as wrong:
            raise InvalidRequestError(
                "A name in the URL is not valid UTF-8; nothing was done."
            ) from wrong


async def _state(request: Request) -> ApiState:
    state: ApiState = request.app.state.api
    return state


async def _lake(request: Request) -> Lake:
    return (await _state(request)).lake


async def _caller(request: Request) -> Credentials:
    credentials: Credentials = request.scope[CREDENTIALS_KEY]
    return credentials


async def _page(
    prefix: str = "",
    after: str = "",
    amount: Annotated[int, Query(ge=-1, le=MAX_PAGE)] = _DEFAULT_PAGE,
) -> PageQuery:
    # lakeFS reads zero and minus one as "as many as you like to send".
    return {"prefix": prefix, "after": after, "amount": amount if amount > 0 else _DEFAULT_PAGE}


def if_absent(request: Request) -> bool:
    """True for `If-None-Match: *`, the one condition on a write that lakeFS and this lake know."""
    if "if-match" in request.headers:
        raise UnsupportedOperationError("If-Match is not supported on writes; nothing was written.")
    condition = request.headers.get("if-none-match")
    if condition not in (None, "*"):
        raise UnsupportedOperationError(
            "If-None-Match is supported on writes with the value * only; nothing was written."
        )
    return condition == "*"


async def _if_absent(request: Request) -> bool:
    return if_absent(request)


StateDep = Annotated[ApiState, Depends(_state)]
LakeDep = Annotated[Lake, Depends(_lake)]
CallerDep = Annotated[Credentials, Depends(_caller)]
PageDep = Annotated[PageQuery, Depends(_page)]
IfAbsentDep = Annotated[bool, Depends(_if_absent)]
PathQuery = Annotated[str, Query(min_length=1)]
