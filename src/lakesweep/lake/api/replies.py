"""JSON replies: the one place that knows how they look on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

__all__ = ["error_reply", "json_reply", "no_content"]


def json_reply(
    content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A JSON document with its content type, which the generated clients look at before they parse."""
    return JSONResponse(content, status_code=status, headers=headers)


def error_reply(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error as every lakeFS client reads it."""
    return json_reply({"message": message}, status, headers)


def no_content() -> Response:
    """204, which has no body and no content type."""
    return Response(status_code=204)
