"""The commits of a repository in a bounded summary: the newest one by one, all of them month by month."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakesweep.domain.commits import BranchHead, Commit, CommitGraph, CommitId, Tag
from lakesweep.domain.durations import format_time, parse_time

__all__ = ["CommitNode", "CommitSummary", "decode_commits", "summarise_commits"]

MOST_COMMITS = 120
_MOST_NAMES = 5  # of branches and tags at one commit
_MOST_MONTHS = 60


@dataclass(frozen=True, slots=True)
class CommitNode:
    """One commit as it is drawn. `names` are branches that point at it, and tags."""

    id: str
    at: datetime
    parents: tuple[str, ...]
    is_retained: bool
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MonthOfCommits:
    """How many commits of one month are retained and how many expired; an empty month stands for all before."""

    month: str
    retained: int
    expired: int


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """The newest commits, children before their parents, and all commits by month, newest first."""

    newest: tuple[CommitNode, ...] = ()
    months: tuple[MonthOfCommits, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The summary as plain JSON values."""
        return {
            "newest": [
                {
                    "id": c.id,
                    "at": format_time(c.at),
                    "parents": list(c.parents),
                    "is_retained": c.is_retained,
                    "names": list(c.names),
                }
                for c in self.newest
            ],
            "months": [[m.month, m.retained, m.expired] for m in self.months],
        }


def decode_commits(values: Mapping[str, Any]) -> CommitSummary:
    """The summary from its JSON values."""
    return CommitSummary(
        tuple(
            CommitNode(
                str(c["id"]),
                parse_time(c["at"]),
                tuple(map(str, c["parents"])),
                bool(c["is_retained"]),
                tuple(map(str, c["names"])),
            )
            for c in values["newest"]
        ),
        tuple(MonthOfCommits(str(m), int(r), int(e)) for m, r, e in values["months"]),
    )


def summarise_commits(
    graph: CommitGraph,
    retained: Collection[CommitId],
    heads: Iterable[BranchHead],
    tags: Iterable[Tag],
) -> CommitSummary:
    """Summarise all commits of a graph."""
    names: dict[str, list[str]] = {}
    refs: list[BranchHead | Tag] = [*heads, *tags]
    for ref in refs:
        names.setdefault(ref.commit_id, []).append(ref.id)
    newest = heapq.nlargest(
        MOST_COMMITS, graph, key=lambda c: (c.creation_date, c.generation, c.id)
    )
    kept: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for commit in graph:
        (kept if commit.id in retained else gone)[f"{commit.creation_date:%Y-%m}"] += 1
    months = sorted({*kept, *gone}, reverse=True)
    rows = [MonthOfCommits(m, kept[m], gone[m]) for m in months[:_MOST_MONTHS]]
    if older := months[_MOST_MONTHS:]:
        rows.append(MonthOfCommits("", sum(kept[m] for m in older), sum(gone[m] for m in older)))
    return CommitSummary(
        tuple(
            CommitNode(
                commit.id,
                commit.creation_date,
                _main_first(commit),
                commit.id in retained,
                _few(names.get(commit.id, [])),
            )
            for commit in newest
        ),
        tuple(rows),
    )


def _main_first(commit: Commit) -> tuple[str, ...]:
    main = commit.main_parent
    return () if main is None else (main, *(p for p in commit.parents if p != main))


def _few(names: list[str]) -> tuple[str, ...]:
    shown = sorted(names)[:_MOST_NAMES]
    more = len(names) - len(shown)
    return (*shown, f"+{more} more") if more else tuple(shown)
