"""A command that was started here: what it says while it runs, and what came of it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakesweep.errors import ConfigError
from lakesweep.report.accounts import accounts
from lakesweep.web.admission import caller_of, form_of, site_of
from lakesweep.web.callers import Need
from lakesweep.web.commands import Command
from lakesweep.web.rendering import render, started

__all__ = ["router"]

router = APIRouter()
_LOG_LINES = 40
# Who may start a command may stop it, whoever started it.
_NEED_OF_PURPOSE = {
    "explain": Need.READ,
    "mark": Need.WRITE,
    "what-if": Need.WRITE,
    "backup": Need.COPY,
    "sweep": Need.SWEEP,
    "resume": Need.SWEEP,
}


@router.get("/r/{repo}/started/{command_id}", name="command")
def show_command(request: Request, repo: str, command_id: str) -> Response:
    """The page of one command; a small script keeps its progress up to date."""
    return _page(request, "command.html", site_of(request).commands.get(repo, command_id))


@router.get("/r/{repo}/started/{command_id}/progress", name="progress")
def show_progress(request: Request, repo: str, command_id: str) -> Response:
    """The part of that page that changes."""
    return _page(request, "progress.html", site_of(request).commands.get(repo, command_id))


@router.post("/r/{repo}/started/{command_id}/stop", name="stop_command")
def stop_command(request: Request, repo: str, command_id: str) -> Response:
    """Stop a command, as Ctrl-C does, once that was confirmed."""
    caller, command = caller_of(request), site_of(request).commands.get(repo, command_id)
    caller.check(_NEED_OF_PURPOSE[command.purpose], repo)
    if not form_of(request).get("confirmed"):
        raise ConfigError(
            f"The box that confirms it is not ticked, so the {command.purpose} goes on."
        )
    command.stop(caller.name)
    return started(request, command)


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
        may_stop=caller_of(request).may(_NEED_OF_PURPOSE[command.purpose]),
        progress=command.progress,
        run=record,
        accounts=list(accounts(record)) if record else [],
        log=command.log.splitlines()[-_LOG_LINES:],
    )
