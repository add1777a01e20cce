"""All repositories, and the first page of one."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs
from lakesweep.collector.lakefs.paths import OWN
from lakesweep.collector.lease import Lease
from lakesweep.web.admission import caller_of, site_of
from lakesweep.web.callers import Need
from lakesweep.web.reading import opened_repository, reachable_repositories
from lakesweep.web.rendering import render

__all__ = ["router"]

router = APIRouter()
_RUNS_SHOWN = 5


@router.get("/", name="repositories")
def show_repositories(request: Request) -> Response:
    """Every repository that the caller reaches."""
    found = reachable_repositories(caller_of(request))
    running = {
        name: [c for c in site_of(request).commands.of(name) if c.is_running] for name, _ in found
    }
    return render(request, "repositories.html", repositories=found, running=running)


@router.get("/r/{repo}", name="repository")
def show_repository(request: Request, repo: str) -> Response:
    """One repository: its rules, its last runs, and a form that starts a mark."""
    caller = caller_of(request)
    with opened_repository(caller, repo) as opened:
        rules = opened.client.rules(opened.name)
        holder = Lease(opened.store, opened.name, "", folder=OWN).told_holder(datetime.now(UTC))
        runs = [run for run in list_runs(opened.store) if not isinstance(run, DamagedRun)]
    return render(
        request,
        "repository.html",
        repo=repo,
        namespace=opened.namespace,
        rules=rules,
        holder=holder,
        runs=runs[:_RUNS_SHOWN],
        running=[c for c in site_of(request).commands.of(repo) if c.is_running],
        may_write=caller.may(Need.WRITE),
    )
