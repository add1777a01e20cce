"""What the page of all runs shows: trends, and a line for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.collector.record import BACKUP, RESTORE, RunRecord
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.limits import Limits
from lakesweep.report.html.names import counted, size_text, took
from lakesweep.report.text import runs_table

__all__ = ["HistoryView", "history_view"]

_MOST_RUNS = 500
_FIRST_NUMBER = 6  # column of the table of runs


@dataclass(frozen=True, slots=True)
class HistoryView:
    """Everything on the page, shortened and made visible; not yet escaped."""

    heading: str
    said: str
    trends: list[tuple[str, Drawing]]
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    first_number: int
    left_out: str
    damaged: list[tuple[str, str]]


def history_view(
    repository: str,
    records: Sequence[RunRecord],
    damaged: Sequence[tuple[str, str]],
    limits: Limits,
) -> HistoryView:
    """The page of these runs, the newest first."""
    shown = records[:_MOST_RUNS]
    head, *rows = runs_table(shown)
    lasted = [took(_seconds(record)) if record.finished_at else "" for record in shown]
    return HistoryView(
        heading=f"Runs on {limits.name(repository)}",
        said=_said(records),
        trends=_trends(shown),
        head=(*head, "took"),
        rows=[
            (*(limits.name(cell) for cell in row), time)
            for row, time in zip(rows, lasted, strict=True)
        ],
        first_number=_FIRST_NUMBER,
        left_out=f"{len(records) - len(shown):,} older runs are left out."
        if len(records) > len(shown)
        else "",
        damaged=[(limits.name(run), limits.said(why)) for run, why in damaged[: limits.items]],
    )


def _said(records: Sequence[RunRecord]) -> str:
    deleted = sum(record.objects["deleted"] for record in records)
    size = sum(record.bytes["deleted"] for record in records)
    return (
        f"{counted(len(records), 'run')}, which deleted {counted(deleted, 'object')} of {size_text(size)} "
        "in all."
    )


def _trends(records: Sequence[RunRecord]) -> list[tuple[str, Drawing]]:
    """Curves over time, oldest first, of runs that looked for garbage or deleted some."""
    runs = [r for r in reversed(records) if r.flow not in (BACKUP, RESTORE)]
    if len(runs) < 2:
        return []
    trends = []
    for id_, title, is_size in (("bytes", "Bytes", True), ("objects", "Objects", False)):
        lines = [
            Curve(
                name,
                [(_at(r), float((r.bytes if is_size else r.objects)[name])) for r in runs],
                paint,
            )
            for name, paint in (("live", "live"), ("garbage", "garbage"), ("deleted", "deleted"))
        ]
        trends.append((id_, _drawn(title, lines, is_size)))
    lasted = Curve(
        "it took", [(_at(r), _seconds(r)) for r in runs if r.finished_at], "unreferenced"
    )
    trends.append(("duration", _drawn("Duration", [lasted], None)))
    return trends


def _drawn(title: str, lines: Sequence[Curve], is_size: bool | None) -> Drawing:
    show: Callable[[float], str] = took
    if is_size is not None:
        show = (lambda v: size_text(int(v))) if is_size else (lambda v: f"{v:,.0f}")
    last = ", ".join(f"{line.name} {show(line.points[-1][1])}" for line in lines if line.points)
    return curves(
        f"{title}, run by run",
        f"In the last run: {last}.",
        lines,
        x_name="",
        show_x=lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}",
        show_y=show,
        is_binary=bool(is_size),
        is_time=is_size is None,
    )


def _at(record: RunRecord) -> float:
    return record.started_at.timestamp()


def _seconds(record: RunRecord) -> float:
    ended = record.finished_at or record.started_at
    return (ended - record.started_at).total_seconds()
