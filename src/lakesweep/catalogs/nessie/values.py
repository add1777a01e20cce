"""What the Nessie client answers, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from lakesweep.domain.live_sets import ContentKind, OtherContent

__all__ = [
    "CatalogConfig",
    "CatalogContent",
    "HistoryPage",
    "LoggedCommit",
    "Reference",
    "TableState",
]


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """Which branch is the default one, and the hash that stands for a history without commits."""

    default_branch: str
    no_ancestor_hash: str | None
    spec_version: str | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or a tag, and the commit it points at."""

    kind: Literal["BRANCH", "TAG"]
    name: str
    hash: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class TableState(NamedTuple):
    """An Iceberg table or view as one commit has it. A tuple, for there may be millions of them."""

    content_id: str
    content_key: tuple[str, ...]
    content_type: ContentKind
    metadata_location: str
    snapshot_id: int


CatalogContent = TableState | OtherContent


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit, the contents that it put and the keys that it deleted. Only the first may be without a parent."""

    hash: str
    time: datetime
    parent: str | None
    contents: tuple[CatalogContent, ...]
    deleted: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Commits, newest first; without a token they reach the root."""

    commits: tuple[LoggedCommit, ...]
    next_token: str | None
