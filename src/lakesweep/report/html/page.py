"""Pages as HTML: a run, and the history of runs. Escaped by the template engine; the policy in each page allows no script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lakesweep.collector.record import RunRecord, decode_record, encode_record
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.what_if import WhatIf
from lakesweep.report.html.history_view import HistoryView, history_view
from lakesweep.report.html.limits import LIMITS, MOST_BYTES, Limits
from lakesweep.report.html.names import visible, visible_lines
from lakesweep.report.html.run_view import RunView, run_view
from lakesweep.report.html.style import content_security_policy, page_style

__all__ = ["history_page", "run_page", "templates"]


def run_page(
    record: RunRecord, summary: RunSummary | None = None, what_if: WhatIf | None = None
) -> str:
    """The page of one run, under a megabyte whatever the lake holds."""
    record = _masked(record)
    return _smallest("run.html.j2", lambda limits: run_view(record, summary, what_if, limits))


def history_page(
    repository: str, records: Sequence[RunRecord], damaged: Sequence[tuple[str, str]] = ()
) -> str:
    """The page of all runs of a repository, the newest first."""
    known = [_masked(record) for record in records]
    return _smallest(
        "history.html.j2", lambda limits: history_view(repository, known, damaged, limits)
    )


@cache
def templates() -> Environment:
    """The templates of pages; whoever makes other pages may extend them."""
    return Environment(
        loader=PackageLoader("lakesweep.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_made_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _made_visible(value: object) -> object:
    """Whatever a template is given as text goes out with every character visible; what is markup has seen to it."""
    return (
        visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )


def _smallest(template: str, view: Callable[[Limits], RunView | HistoryView]) -> str:
    page = ""
    for limits in LIMITS:
        page = _rendered(template, view(limits))
        if len(page.encode()) <= MOST_BYTES:
            break
    return page


def _rendered(template: str, page: RunView | HistoryView) -> str:
    style = page_style()
    return (
        templates()
        .get_template(template)
        .render(
            page=page,
            title=f"{page.heading} · lakesweep",
            policy=content_security_policy(style),
            style=Markup(style),
            footer=f"Made by lakesweep {_version()}. This page loads nothing from anywhere.",
        )
    )


def _masked(record: RunRecord) -> RunRecord:
    """The record as its file has it: without secrets that a message may quote."""
    return decode_record(encode_record(record), "of this page")


def _version() -> str:
    try:
        return visible(version("lakesweep"))
    except PackageNotFoundError:
        return ""
