"""Errors to HTTP statuses: one table, and the handlers that use it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    StorageDeniedError,
    ThrottledError,
    UnsupportedStoreError,
)
from lakesweep.lake import errors as lake
from lakesweep.lake.api.auth import CREDENTIALS_KEY
from lakesweep.lake.api.replies import error_reply, json_reply

logger = logging.getLogger(__name__)

# First match wins, so kin stand before their parents.
STATUS_OF_ERROR: tuple[tuple[type[LakesweepError], int], ...] = (
    (lake.InvalidRequestError, 400),
    (lake.ForbiddenError, 403),
    (lake.MissingError, 404),
    (lake.ConflictError, 409),
    (lake.GoneError, 410),
    (lake.PreconditionFailedError, 412),
    (lake.RangeNotSatisfiableError, 416),
    (lake.TooManyTriesError, 429),
    (lake.UnsupportedOperationError, 501),
    (lake.RefStoreError, 503),
    (ConfigError, 400),  # a namespace or an address that no store understands
    (UnsupportedStoreError, 400),
    (StorageDeniedError, 403),
    (ThrottledError, 503),
)
_CLIENTS_EXPECT = {410: "No data"}


def status_of(error: Exception) -> int:
    """The HTTP status that tells a client what `error` is; 500 when it is nobody's fault but ours."""
    return next((status for kind, status in STATUS_OF_ERROR if isinstance(error, kind)), 500)


def message_of(error: Exception) -> str:
    """What a client may read about `error`: our own messages, and nothing of an unforeseen one."""
    if isinstance(error, LakesweepError):
        return error.message
    return "The lake failed in a way it did not foresee; its log has the details."


def install_error_handlers(app: FastAPI) -> None:
    """Make `app` answer every error as `{"message": …}`."""
    for kind, answer in _ANSWER_OF_ERROR.items():
        app.add_exception_handler(kind, answer)


def answer_error(request: Request, error: Exception) -> Response:
    """The reply to an error, as the handlers of an app would answer it."""
    return next(
        answer(request, error)
        for kind, answer in _ANSWER_OF_ERROR.items()
        if isinstance(error, kind)
    )


def is_bug(error: Exception) -> bool:
    """Whether the error is none that is answered in words of its own, and so has to be logged."""
    return not isinstance(error, LakesweepError | HTTPException | ClientDisconnect)


def _answer_lakesweep_error(request: Request, error: Exception) -> Response:
    status = status_of(error)
    if status == 500:
        logger.error("%s %s failed: %s", request.method, request.url.path, error)
    if isinstance(error, lake.MergeConflictError) and "/merge/" in request.url.path:
        # lakeFS's clients parse the reply to a conflicting merge as a merge result without a reference.
        return json_reply({"reference": ""}, status)
    headers = {}
    if isinstance(error, lake.RangeNotSatisfiableError) and error.size_bytes is not None:
        headers["Content-Range"] = f"bytes */{error.size_bytes}"
    message = _CLIENTS_EXPECT.get(status, message_of(error))
    if isinstance(error, lake.RefStoreError) and CREDENTIALS_KEY not in request.scope:
        # A stranger who logs in, say, is not told where the ref store lies.
        logger.error("%s %s failed: %s", request.method, request.url.path, error)
        message = "The lake's ref store does not answer."
    return error_reply(status, message, headers)


def _answer_validation_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(_describe(problem) for problem in error.errors())
    return error_reply(400, f"The request is not valid, so nothing was done: {problems}.")


def _describe(problem: dict[str, Any]) -> str:
    place = ".".join(str(step) for step in problem["loc"])
    return f"{place}: {problem['msg'][:200]}"


def _answer_http_exception(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_reply(error.status_code, str(error.detail), error.headers)


def _answer_nobody(_request: Request, _error: Exception) -> Response:
    # The client went away half-way through its body; nobody reads this, and it is no bug of ours.
    return error_reply(400, "The request's body ended early, so nothing was stored.")


def _answer_bug(_request: Request, error: Exception) -> Response:
    # The server logs it with its traceback: what is answered here is raised on.
    return error_reply(500, message_of(error))


# First match wins, so the last stands for all that nobody foresaw.
_ANSWER_OF_ERROR: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    LakesweepError: _answer_lakesweep_error,
    RequestValidationError: _answer_validation_error,
    HTTPException: _answer_http_exception,
    ClientDisconnect: _answer_nobody,
    Exception: _answer_bug,
}
