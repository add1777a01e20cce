"""Backups: runs that copied, sweeps that copy before they delete, and the commands that make and use copies."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.history import DamagedRun, list_runs
from lakesweep.collector.record import BACKUP, RESTORE, RunStatus
from lakesweep.web.admission import caller_of
from lakesweep.web.reading import opened_repository
from lakesweep.web.rendering import render

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
    )
