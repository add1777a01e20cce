"""The commits of a run as a page shows them: the newest as a graph, all of them month by month."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.collector.record import RunRecord
from lakesweep.domain.commit_summary import CommitSummary, MonthOfCommits
from lakesweep.report.html.drawings.graph import commit_graph
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.limits import Limits
from lakesweep.report.html.names import counted

__all__ = ["CommitsView", "commits_view"]


@dataclass(frozen=True, slots=True)
class CommitsView:
    """The graph, the months, and how many commits are in the months only."""

    said: str
    graph: Drawing
    graph_size: int
    left_out: int
    months: tuple[MonthOfCommits, ...]


def commits_view(record: RunRecord, found: CommitSummary, limits: Limits) -> CommitsView:
    """The commits, with no more in the graph than the limits let it show."""
    drawn = found.newest[: limits.commits]
    every = sum(month.retained + month.expired for month in found.months)
    return CommitsView(
        f"{counted(every, 'commit')} in all: {record.retained_commits:,} retained, {record.expired_commits:,} expired.",
        commit_graph("Commits, retained and expired", drawn),
        len(drawn),
        every - len(drawn),
        found.months,
    )
