"""Backups: runs that copied, sweeps that copy before they delete, and a form that copies what a mark names."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.record import BACKUP, RESTORE, RunStatus
from lakesweep.errors import ConfigError
from lakesweep.web.admission import caller_of, form_of, site_of
from lakesweep.web.callers import Need
from lakesweep.web.reading import opened_repository
from lakesweep.web.rendering import render, started

__all__ = ["router"]

router = APIRouter()


@router.get("/r/{repo}/backups", name="backups")
def show_backups(request: Request, repo: str) -> Response:
    """What was copied, what was put back, and what could be."""
    with opened_repository(caller_of(request), repo) as opened:
        runs = [run for run in list_runs(opened.store) if not isinstance(run, DamagedRun)]
    return render(
        request,
        "backups.html",
        repo=repo,
        copied=[run for run in runs if run.flow in (BACKUP, RESTORE)],
        copying_sweeps=[run for run in runs if run.backup_to],
        waiting=[run for run in runs if run.status is RunStatus.MARKED],
        may_copy=caller_of(request).may(Need.COPY),
    )


@router.post("/r/{repo}/backups", name="start_backup")
def start_backup(request: Request, repo: str) -> Response:
    """Copy what a mark names to another place."""
    caller, form = caller_of(request), form_of(request)
    to = form.get("to", "").strip()
    if not to:
        raise ConfigError("Where to? The form names no place for the copies. Nothing was started.")
    with opened_repository(caller, repo) as opened:
        plan = load_plan(opened.store, opened.name, parse_mark_id(form.get("mark_id", "")))
    asked = ("--mark-id", plan.mark_id, f"--to={to}", "--output", "json")
    words = ("backup", *asked, "--", opened.name)
    return started(request, site_of(request).commands.start(caller, repo, words))
