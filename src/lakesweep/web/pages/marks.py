"""A mark to browse and search: every object that its plan would delete, and why."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.browsing import Position, browse_mark
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.plan import planned_parts
from lakesweep.errors import ConfigError
from lakesweep.report.accounts import GARBAGE_WORDS
from lakesweep.web.admission import caller_of
from lakesweep.web.reading import opened_repository
from lakesweep.web.rendering import render

__all__ = ["router"]

router = APIRouter()
_WHY = dict(GARBAGE_WORDS)


@router.get("/r/{repo}/marks/{mark_id}", name="mark")
def show_mark(
    request: Request, repo: str, mark_id: str, prefix: str = "", reason: str = "", at: str = "0.0"
) -> Response:
    """A page of the mark's objects, from a position on."""
    if reason not in ("", *_WHY):
        raise ConfigError(f"{reason!r} is not a reason that a mark gives.")
    with opened_repository(caller_of(request), repo) as opened:
        plan = load_plan(opened.store, opened.name, parse_mark_id(mark_id))
        wanted = prefix.strip().removeprefix(opened.namespace.rstrip("/") + "/")
        page = browse_mark(
            opened.store,
            planned_parts(opened.store, plan),
            prefix=wanted,
            reason=reason,
            start=_position(at),
        )
    return render(
        request,
        "mark.html",
        repo=repo,
        plan=plan,
        page=page,
        next_at=f"{page.next.part}.{page.next.row}" if page.next else "",
        is_first=at == "0.0",
        prefix=wanted,
        reason=reason,
        why=_WHY,
    )


def _position(text: str) -> Position:
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,12})", text, re.ASCII)
    if found is None:
        raise ConfigError(f"{text!r} is not a position in a mark. Begin at its first page.")
    return Position(int(found[1]), int(found[2]))
