"""JSON replies: the one place that knows how they look on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from lakesweep.storage import SignedUrl

__all__ = ["RawReply", "error_reply", "header_text", "json_reply", "no_content", "redirect_reply"]

# Types and checksums may come from JSON or another server's commit; a line break in a header would begin another one.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class RawReply(Response):
    """Bytes with headers that say all about them; nothing is added."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers.items()
        ]


def json_reply(
    content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A JSON document with its content type, which the generated clients look at before they parse."""
    return JSONResponse(content, status_code=status, headers=headers)


def error_reply(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error as every lakeFS client reads it."""
    # What a client sent may be told back to it, and need not be text.
    shown = message.encode(errors="replace").decode()
    return json_reply({"message": shown}, status, headers)


def header_text(value: str) -> str:
    """A stored text as a header can carry it: one line, Latin-1, no spaces around it."""
    line = _CONTROL.sub(" ", value).strip()
    return line.encode("latin-1", errors="replace").decode("latin-1")


def no_content() -> Response:
    """204, which has no body and no content type."""
    return Response(status_code=204)


def redirect_reply(signed: SignedUrl) -> Response:
    """302 to a presigned URL, which no cache may keep longer than it lives."""
    return Response(status_code=302, headers={"Location": signed.url, "Cache-Control": "no-store"})
