"""The commits of a repository in a bounded summary: the newest one by one, all of them month by month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakesweep.domain.durations import format_time, parse_time

__all__ = ["CommitNode", "CommitSummary", "MonthOfCommits", "decode_commits"]


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
