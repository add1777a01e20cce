"""The log: which commits led to a ref, and which of them touched a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakesweep.domain.commits import Commit, MetaRangeId
from lakesweep.lake.commits.ancestry import newest_first
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.comparing import differences
from lakesweep.lake.names import path_key, prefix_key
from lakesweep.lake.records import cut_page, page_size
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.staging.staged_values import has_same_identity
from lakesweep.lake.values import Page, Repository


class Log:
    """Reads logs."""

    def __init__(self, refs: Refs, commits: Commits, committed: Committed) -> None:
        self._refs = refs
        self._commits = commits
        self._committed = committed

    def page(
        self,
        repository: Repository,
        ref: str,
        *,
        after: str = "",
        amount: int = 100,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
        first_parent: bool = False,
        since: datetime | None = None,
        stop_at: str = "",
    ) -> Page[Commit]:
        """Commits newest first; a page's offset is its last commit's id."""
        start = self._refs.resolve(repository, ref).commit_id
        stop_id = self._refs.resolve(repository, stop_at).commit_id if stop_at else None
        walk = newest_first(self._commits, repository, start, first_parent=first_parent)
        commits = _between(walk, after, since, stop_id)
        if objects or prefixes:
            keys = [path_key(path) for path in objects]
            starts = [prefix_key(prefix) for prefix in prefixes]
            commits = (c for c in commits if self._touches(repository, c, keys, starts))
        page = cut_page(((commit.id, commit) for commit in commits), page_size(amount))
        return Page(page.results) if limit else page

    def _touches(
        self,
        repository: Repository,
        commit: Commit,
        keys: Sequence[bytes],
        prefixes: Sequence[bytes],
    ) -> bool:
        """Whether the commit changed one of the paths against its main parent. A merge only carries others' changes."""
        if len(commit.parents) > 1:
            return False
        before = MetaRangeId("")
        if commit.main_parent is not None:
            before = self._committed.metarange_of(repository, commit.main_parent)
        after = commit.meta_range_id
        return any(self._differs_at(repository, before, after, key) for key in keys) or any(
            self._differs_below(repository, before, after, prefix) for prefix in prefixes
        )

    def _differs_at(
        self, repository: Repository, before: MetaRangeId, after: MetaRangeId, key: bytes
    ) -> bool:
        old = self._committed.find(repository, before, key)
        new = self._committed.find(repository, after, key)
        if old is None or new is None:
            return old is not new
        return not has_same_identity(old, new)

    def _differs_below(
        self, repository: Repository, before: MetaRangeId, after: MetaRangeId, prefix: bytes
    ) -> bool:
        found = next(differences(self._committed, repository, before, after, prefix), None)
        return found is not None and found.key.startswith(prefix)


def _between(
    walk: Iterator[Commit], after: str, since: datetime | None, stop_id: str | None
) -> Iterator[Commit]:
    has_begun = not after
    for commit in walk:
        if since is not None and commit.creation_date < since:
            return
        if has_begun:
            yield commit
        elif commit.id == after:
            has_begun = True
        if commit.id == stop_id:
            return
