"""`lakesweep runs`: what was run on a repository, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.pages import PageSums, check_page_files, lakefs_place, write_files, write_to
from lakesweep.cli.render import print_result, print_text, table_lines
from lakesweep.cli.running import PendingRun, on_spark, opened_run, run_and_show, show_record
from lakesweep.cli.runs_prune import prune
from lakesweep.settings.guards import refuse_switched_off
from lakesweep.settings.values import Settings

__all__ = ["runs_app"]

runs_app = typer.Typer(no_args_is_help=True, help="Earlier runs on a repository.")

_RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="As `lakesweep runs list` shows it.")]


_Html = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Also write a page with all runs and trends."),
]


@runs_app.command("list")
@with_settings("server", "namespace_root", "storage_option", "output")
def list_all(repo: Repo, html: _Html = None, *, settings: Settings) -> None:
    """List the runs of a repository, the newest first."""
    from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs
    from lakesweep.report.text import runs_table

    with opened_run(settings, repo) as context:
        found = list_runs(context.store)
    records = [run for run in found if not isinstance(run, DamagedRun)]
    damaged = [run for run in found if isinstance(run, DamagedRun)]
    document = {
        "schema": "lakesweep.runs/1",
        "repository": context.name,
        "runs": [record.as_json() for record in records],
        "damaged": [{"run_id": run.run_id, "reason": run.why} for run in damaged],
    }
    if html is not None:
        from lakesweep.report.html.page import history_page

        bad = [(run.run_id, run.why) for run in damaged]
        write_to(html, history_page(context.name, records, bad).encode())
    head, *rows = runs_table(records)
    lines = list(table_lines(head, rows)) if records else []
    lines += [f"{run.run_id}  not readable: {run.why}" for run in damaged]
    print_result(settings.output, document, lines or [f"{context.name} has no runs yet."])


@runs_app.command("show")
@with_settings("server", "namespace_root", "storage_option", "output")
def show(repo: Repo, run_id: _RunId, *, settings: Settings) -> None:
    """Print the record of a run."""
    from lakesweep.collector.lakefs.between_runs.history import load_run

    with opened_run(settings, repo) as context:
        record = load_run(context.store, context.name, run_id)
    show_record(settings.output, record)


@runs_app.command("report")
@with_settings("server", "namespace_root", "storage_option", "pages", "output")
def report(repo: Repo, run_id: _RunId, *, settings: Settings) -> None:
    """Make the page of a run: one HTML file that needs nothing else.

    It is printed, unless --report names a file for it or --plot asks for a plot.
    """
    from lakesweep.collector.lakefs.between_runs.history import load_run
    from lakesweep.report.html.page import run_page

    wanted = settings.output
    check_page_files(wanted)
    with opened_run(settings, repo) as context:
        record = load_run(context.store, context.name, run_id)
        sums = PageSums.read(lakefs_place(context.store, run_id))
    if wanted.report is None and wanted.plot is None:
        print_text(run_page(record, sums.summary, sums.what_if))
    write_files(wanted, record, sums)


@runs_app.command("resume")
@with_settings(
    "server", "storage", "unsafe_min_age", "sweep", "spark", "pages", "output", "metrics"
)
@on_spark
def resume(repo: Repo, run_id: _RunId, *, settings: Settings) -> None:
    """Go on with a sweep that was interrupted or that left keys. What is live is read again first."""
    from lakesweep.collector.lakefs.collect import run_resume
    from lakesweep.collector.lakefs.opening import sweep_request

    refuse_switched_off(settings.collect, sweep=True)
    request = sweep_request(settings, repo)
    run_and_show(settings, PendingRun(repo), lambda context: run_resume(context, run_id, request))


runs_app.command("prune")(prune)


@runs_app.command("forget")
@with_settings("server", "namespace_root", "no_lease", "storage_option", "output")
def forget(repo: Repo, run_id: _RunId, *, settings: Settings) -> None:
    """Remove a run's files and its mark. What the run deleted stays known."""
    from lakesweep.collector.lakefs.between_runs.history import forget_run
    from lakesweep.collector.lakefs.collect import held_lease

    with opened_run(settings, repo) as context, held_lease(context, "forget"):
        files = forget_run(context.store, context.name, run_id)
    line = f"run {run_id} of {context.name} is forgotten: {files} files removed"
    document = {"schema": "lakesweep.forgotten/1", "run_id": run_id, "files": files}
    print_result(settings.output, document, [line])
