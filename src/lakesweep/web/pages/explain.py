"""Why an object is kept or goes: the question is a form, the answer is what `lakesweep explain` says."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakesweep.errors import ConfigError
from lakesweep.web.admission import caller_of, form_of, site_of
from lakesweep.web.reading import opened_repository
from lakesweep.web.rendering import render, started

__all__ = ["router"]

router = APIRouter()


@router.get("/r/{repo}/explain", name="explain")
def show_explain(request: Request, repo: str, object: str = "") -> Response:
    """The question."""
    return render(request, "explain.html", repo=repo, object=object)


@router.post("/r/{repo}/explain", name="start_explain")
def start_explain(request: Request, repo: str) -> Response:
    """Ask. All ranges of the repository may have to be read, so it is a command that can be watched."""
    caller, asked = caller_of(request), form_of(request).get("object", "").strip()
    if not asked:
        raise ConfigError("Which object? The form names none. Nothing was started.")
    with opened_repository(caller, repo) as opened:
        words = ("explain", "--", opened.name, asked)
    return started(request, site_of(request).commands.start(caller, repo, words))
