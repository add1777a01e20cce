"""The summary of a history for the report: its newest commits, and all of them month by month."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_walk import Bools, Ints
from lakesweep.domain.commit_summary import CommitNode, CommitSummary, MonthOfCommits
from lakesweep.domain.commits import BranchHead, Tag

__all__ = ["MOST_COMMITS", "summarise_history"]

MOST_COMMITS = 120
_MOST_NAMES = 5  # of branches and tags at one commit
_MOST_MONTHS = 60


def summarise_history(
    history: History, is_retained: Bools, heads: Iterable[BranchHead], tags: Iterable[Tag]
) -> CommitSummary:
    """Summarise all commits; `is_retained` has a value for each row."""
    names: dict[str, list[str]] = {}
    refs: list[BranchHead | Tag] = [*heads, *tags]
    for ref in refs:
        names.setdefault(ref.commit_id, []).append(ref.id)
    newest = (
        CommitNode(
            history.id(row),
            history.date(row),
            _main_first(history, row),
            bool(is_retained[row]),
            _few(names.get(history.id(row), [])),
        )
        for row in _newest(history).tolist()
    )
    return CommitSummary(tuple(newest), tuple(_months(history, is_retained)))


def _newest(history: History) -> Ints:
    """Rows by date, generation and id, the greatest first. Rows themselves are in the order of their ids."""
    dates, generations = history.columns.dates, history.columns.generations
    rows = np.arange(len(history))
    if len(rows) > MOST_COMMITS:
        rows = np.flatnonzero(dates >= np.partition(dates, -MOST_COMMITS)[-MOST_COMMITS])
    return rows[np.lexsort((rows, generations[rows], dates[rows]))][::-1][:MOST_COMMITS]


def _months(history: History, is_retained: Bools) -> list[MonthOfCommits]:
    """The newest month first; the last one, without a name, stands for all before."""
    times = history.columns.dates.astype("datetime64[us]")
    months, place = np.unique(times.astype("datetime64[M]"), return_inverse=True)
    kept = np.bincount(place[is_retained], minlength=len(months))[::-1]
    gone = np.bincount(place[~is_retained], minlength=len(months))[::-1]
    columns = (column[:_MOST_MONTHS].tolist() for column in (months[::-1].astype(str), kept, gone))
    rows = [MonthOfCommits(*row) for row in zip(*columns, strict=True)]
    if len(months) > _MOST_MONTHS:
        older = slice(_MOST_MONTHS, None)
        rows.append(MonthOfCommits("", int(kept[older].sum()), int(gone[older].sum())))
    return rows


def _main_first(history: History, row: int) -> tuple[str, ...]:
    main = history.main_parent(row)
    return () if main is None else (main, *(p for p in history.parents(row) if p != main))


def _few(names: list[str]) -> tuple[str, ...]:
    shown = sorted(names)[:_MOST_NAMES]
    more = len(names) - len(shown)
    return (*shown, f"+{more} more") if more else tuple(shown)
