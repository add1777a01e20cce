"""Walking the commit graph of a repository in the ref store."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from lakesweep.domain.commits import Commit, CommitId
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.values import Repository

_FROM_LEFT, _FROM_RIGHT = 1, 2


def newest_first(
    commits: Commits, repository: Repository, start: CommitId, *, first_parent: bool = False
) -> Iterator[Commit]:
    """Every commit that `start` reaches, itself included: newest creation date first, ties by larger id."""
    seen = {start}
    queue = [_Newest(commits.get(repository, start))]
    while queue:
        commit = heapq.heappop(queue).commit
        yield commit
        parents = commit.parents
        if first_parent and commit.main_parent is not None:
            parents = (commit.main_parent,)
        for parent in parents:
            if parent not in seen:
                seen.add(parent)
                heapq.heappush(queue, _Newest(commits.get(repository, parent)))


def merge_base(commits: Commits, repository: Repository, left: CommitId, right: CommitId) -> Commit:
    """The nearest commit that both sides reach; `InvalidRequestError` when their histories are apart.

    Commits are taken with descendants first (by generation), so the first one reached from both sides has no
    descendant that is.
    """
    reached: dict[CommitId, int] = {}
    queue: list[tuple[int, str, Commit]] = []

    def reach(commit_id: CommitId, side: int) -> None:
        if reached.get(commit_id, 0) | side == reached.get(commit_id, 0):
            return
        if commit_id not in reached:
            commit = commits.get(repository, commit_id)
            heapq.heappush(queue, (-commit.generation, commit_id, commit))
        reached[commit_id] = reached.get(commit_id, 0) | side

    reach(left, _FROM_LEFT)
    reach(right, _FROM_RIGHT)
    while queue:
        _, _, commit = heapq.heappop(queue)
        sides = reached[commit.id]
        if sides == _FROM_LEFT | _FROM_RIGHT:
            return commit
        for parent in commit.parents:
            reach(parent, sides)
    raise InvalidRequestError(
        f"commits {left} and {right} of {repository.id} have no history in common",
        kind="no-merge-base",
    )


class _Newest:
    """Orders commits newest first in a heap."""

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit

    def __lt__(self, other: _Newest) -> bool:
        mine, theirs = self.commit, other.commit
        return (mine.creation_date, mine.id) > (theirs.creation_date, theirs.id)
