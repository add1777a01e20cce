"""A command that was started here: what it says while it runs, and what came of it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakesweep.report.accounts import accounts
from lakesweep.web.admission import site_of
from lakesweep.web.commands import Command
from lakesweep.web.rendering import render

__all__ = ["router"]

router = APIRouter()
_LOG_LINES = 40


@router.get("/r/{repo}/started/{command_id}", name="command")
def show_command(request: Request, repo: str, command_id: str) -> Response:
    """The page of one command; a small script keeps its progress up to date."""
    return _page(request, "command.html", site_of(request).commands.get(repo, command_id))


@router.get("/r/{repo}/started/{command_id}/progress", name="progress")
def show_progress(request: Request, repo: str, command_id: str) -> Response:
    """The part of that page that changes."""
    return _page(request, "progress.html", site_of(request).commands.get(repo, command_id))


def _page(request: Request, template: str, command: Command) -> Response:
    # Asked before its output is read: what is there then is whole.
    is_running = command.is_running
    record = None if is_running else command.record
    return render(
        request,
        template,
        repo=command.repository,
        command=command,
        is_running=is_running,
        progress=command.progress,
        run=record,
        accounts=list(accounts(record)) if record else [],
        log=command.log.splitlines()[-_LOG_LINES:],
    )
