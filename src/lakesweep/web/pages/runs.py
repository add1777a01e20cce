"""Runs: all of a repository's, one with its numbers, and the forms that start a mark or sweep a plan.

A sweep is started for the plan whose id was typed, and for no other. All else that could refuse it is the sweep's own:
the page hands over no option that lowers a guard.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs, load_run
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, RunFolder, parse_mark_id, parse_run_id
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.errors import ConfigError, LakesweepError, UnsafeToSweepError
from lakesweep.report.accounts import accounts
from lakesweep.report.html.beside import RunPlace
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.garbage_view import age_bars, folder_treemap
from lakesweep.report.html.page import run_page
from lakesweep.report.html.style import content_security_policy, page_style
from lakesweep.web.admission import caller_of, form_of, site_of
from lakesweep.web.callers import Need
from lakesweep.web.reading import OpenRepository, opened_repository
from lakesweep.web.rendering import render, started

__all__ = ["router"]

router = APIRouter()

_OUTPUT = ("--output", "json")


@router.get("/r/{repo}/runs", name="runs")
def show_runs(request: Request, repo: str) -> Response:
    """Every run, the newest first, and the commands that were started here."""
    with opened_repository(caller_of(request), repo) as opened:
        found = list_runs(opened.store)
    return render(
        request,
        "runs.html",
        repo=repo,
        runs=[run for run in found if not isinstance(run, DamagedRun)],
        damaged=[run for run in found if isinstance(run, DamagedRun)],
        commands=site_of(request).commands.of(repo),
        may_write=caller_of(request).may(Need.WRITE),
    )


@router.post("/r/{repo}/runs", name="start_mark")
def start_mark(request: Request, repo: str) -> Response:
    """Start a mark, which deletes nothing."""
    form = form_of(request)
    try:
        what, flow = What(form.get("what", "all")), Flow(form.get("flow", "auto"))
    except ValueError as error:
        raise ConfigError(f"The form can't be read: {error}. Nothing was started.") from error
    caller = caller_of(request)
    with opened_repository(caller, repo) as opened:  # refused here rather than in a log
        words = ("mark", "--what", what.value, "--run", flow.value, *_OUTPUT, "--", opened.name)
    return started(request, site_of(request).commands.start(caller, repo, words))


@router.get("/r/{repo}/runs/{run_id}", name="run")
def show_run(request: Request, repo: str, run_id: str) -> Response:
    """One run with its numbers, and what may be done next."""
    with opened_repository(caller_of(request), repo) as opened:
        record = load_run(opened.store, opened.name, run_id)
        plan, doubt = _plan_of(opened, record)
        summary = _place(opened, run_id).summary()
    drawn: tuple[Drawing, ...] = ()
    if summary is not None and summary.garbage.total.objects:
        drawn = (folder_treemap(summary.garbage), age_bars(summary.garbage))
    return _page(request, repo, record, plan, doubt, drawn=drawn)


@router.get("/r/{repo}/runs/{run_id}/report", name="report")
def show_report(request: Request, repo: str, run_id: str) -> Response:
    """The run's report with its drawings, a page that stands alone and has its own policy."""
    with opened_repository(caller_of(request), repo) as opened:
        record = load_run(opened.store, opened.name, run_id)
        place = _place(opened, run_id)
        page = run_page(record, place.summary(), place.last_what_if())
    policy = f"{content_security_policy(page_style())}; frame-ancestors 'none'"
    hidden = site_of(request).hide(page.encode())
    return HTMLResponse(hidden, headers={"Content-Security-Policy": policy})


@router.post("/r/{repo}/runs/{run_id}/sweep", name="start_sweep")
def start_sweep(request: Request, repo: str, run_id: str) -> Response:
    """Sweep the plan of a mark, when its id was typed."""
    words = ("sweep", *(["--dry-run"] if form_of(request).get("dry_run") else []))
    return _sweep_typed(request, repo, run_id, RunStatus.MARKED, words)


@router.post("/r/{repo}/runs/{run_id}/resume", name="resume_sweep")
def resume_sweep(request: Request, repo: str, run_id: str) -> Response:
    """Go on with a sweep that left something, when the id of its plan was typed."""
    return _sweep_typed(request, repo, run_id, RunStatus.PARTLY_SWEPT, ("runs", "resume"))


def _sweep_typed(
    request: Request, repo: str, run_id: str, status: RunStatus, words: tuple[str, ...]
) -> Response:
    caller, typed = caller_of(request), form_of(request).get("plan_id", "").strip()
    with opened_repository(caller, repo) as opened:
        record = load_run(opened.store, opened.name, run_id)
        plan, doubt = _plan_of(opened, record)
        problem = _problem(record, plan, typed, status)
    if problem or plan is None:
        return _page(request, repo, record, plan, doubt, problem=problem, status=400)
    if words[0] == "sweep":
        words = (*words, "--mark-id", plan.mark_id, *_OUTPUT, "--", opened.name)
    else:
        words = (*words, *_OUTPUT, "--", opened.name, run_id)
    return started(request, site_of(request).commands.start(caller, repo, words))


def _problem(record: RunRecord, plan: Plan | None, typed: str, status: RunStatus) -> str:
    """Why nothing is started; empty when the plan's own id was typed, and the run waits for this."""
    if plan is None:
        return "This run has no plan that can be swept. Nothing was deleted."
    if typed != plan.id:
        return f"{typed!r} is not the id of this run's plan. Nothing was deleted."
    if record.status is not status:
        return f"This run is {record.status.value}, not {status.value}. Nothing was deleted."
    return ""


def _place(opened: OpenRepository, run_id: str) -> RunPlace:
    """Where the run keeps its sums."""
    return RunPlace(opened.store, RunFolder(parse_run_id(run_id)), LATEST_WHAT_IF)


def _refusal(plan: Plan, max_delete_share: float) -> str:
    """What a sweep will say of a plan that nobody confirmed; empty where it needs no confirmation."""
    try:
        plan.blast_radius.check_confirmed(None, max_delete_share)
    except UnsafeToSweepError as error:
        return error.message
    return ""


def _plan_of(opened: OpenRepository, record: RunRecord) -> tuple[Plan | None, str]:
    """The run's plan, and why there is none that can be read."""
    if not record.plan_id or record.flow in (BACKUP, RESTORE):
        return None, ""
    try:
        return load_plan(opened.store, opened.name, parse_mark_id(record.mark_id)), ""
    except LakesweepError as error:
        return None, error.message


def _page(
    request: Request,
    repo: str,
    record: RunRecord,
    plan: Plan | None,
    doubt: str,
    *,
    drawn: Sequence[Drawing] = (),
    problem: str = "",
    status: int = 200,
) -> Response:
    caller = caller_of(request)
    return render(
        request,
        "run.html",
        status,
        repo=repo,
        run=record,
        accounts=list(accounts(record)),
        plan=plan,
        share=plan.blast_radius.share if plan else 0.0,
        doubt=doubt,
        drawn=drawn,
        problem=problem,
        too_large=_refusal(plan, caller.settings.collect.max_delete_share) if plan else "",
        may_sweep=caller.may(Need.SWEEP),
        copies=record.flow in (BACKUP, RESTORE),
    )
