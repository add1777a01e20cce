"""Commits and the graph they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NewType

CommitId = NewType("CommitId", str)
MetaRangeId = NewType("MetaRangeId", str)
RangeId = NewType("RangeId", str)
BranchId = NewType("BranchId", str)
TagId = NewType("TagId", str)

# Commits of version 0 list the main parent last; from version 1 on it comes first.
PARENT_ORDER_SWITCH_VERSION = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as lakeFS records it. `meta_range_id` is empty for a repository's first commit."""

    id: CommitId
    committer: str
    message: str
    creation_date: datetime
    meta_range_id: MetaRangeId
    parents: tuple[CommitId, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    generation: int = 1

    @property
    def main_parent(self) -> CommitId | None:
        """The parent that this commit superseded; other parents were merged in and protect nothing."""
        if not self.parents:
            return None
        return self.parents[0 if self.version >= PARENT_ORDER_SWITCH_VERSION else -1]


@dataclass(frozen=True, slots=True)
class BranchHead:
    """A branch and the commit it points at."""

    id: BranchId
    commit_id: CommitId
    staging_token: str = ""
    sealed_tokens: tuple[str, ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one commit."""

    id: TagId
    commit_id: CommitId


@dataclass(frozen=True, slots=True)
class HeadMove:
    """A branch stopped pointing at `commit_id` at `until` (moved, hard-reset or deleted)."""

    branch_id: BranchId
    commit_id: CommitId
    until: datetime


class CommitGraph:
    """All commits of a repository by id, dangling ones included."""

    def __init__(self, commits: Iterable[Commit]) -> None:
        self._by_id = {commit.id: commit for commit in commits}

    def __contains__(self, commit_id: object) -> bool:
        return commit_id in self._by_id

    def __getitem__(self, commit_id: CommitId) -> Commit:
        return self._by_id[commit_id]

    def __iter__(self) -> Iterator[Commit]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, commit_id: CommitId) -> Commit | None:
        """The commit, or None when the graph does not hold it."""
        return self._by_id.get(commit_id)
