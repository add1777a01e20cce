"""The commits of a Nessie catalog, each read once however many references share it, and kept in a small form."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.transport import nonsense
from lakesweep.catalogs.nessie.values import (
    CatalogConfig,
    CatalogContent,
    LoggedCommit,
    Reference,
    TableState,
)
from lakesweep.errors import CatalogNotFoundError

__all__ = ["DEFAULT_PAGES", "FORK_PAGES", "ROOT", "CommitHistory", "log_of", "read_history"]

ROOT = -1  # the number that stands for "before the first commit"

_SERVER_PAGE = 250  # more than this no server sends at once
DEFAULT_PAGES = (_SERVER_PAGE,)
# A fork mostly has few commits of its own. Of the page in which it meets what is known, the rest was read in vain: at most
# 9 commits for a fork of up to ten, 49 for one of up to sixty, and never more than 249.
FORK_PAGES = (10, 50, _SERVER_PAGE)


class CommitHistory:
    """Commits by number, in columns. Many threads may add to it; who meets a known commit has no more to read."""

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self.times: list[datetime] = []
        self.contents: list[tuple[CatalogContent, ...]] = []
        self.deleted: list[tuple[tuple[str, ...], ...]] = []
        self.parents = array("q")
        self._numbers: dict[str, int] = {}
        self._states: dict[TableState, TableState] = {}
        self._ids: dict[str, str] = {}
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.hashes)

    def number_of(self, hash: str) -> int | None:
        """The number of a commit that was read; None when it was not."""
        return self._numbers.get(hash)

    def add(self, commits: Sequence[LoggedCommit], child: int | None) -> tuple[int, bool]:
        """Add a page of a log, newest first, below its child.

        Returns the number of the last commit that is on the log, and whether the log is known from there on.
        """
        with self._lock:
            for commit in commits:
                known = self._numbers.get(commit.hash)
                number = self._append(commit) if known is None else known
                if child is not None:
                    self.parents[child] = number
                if known is not None:
                    return known, True
                child = number
        if child is None:
            raise ValueError("a page without commits has no last one")
        return child, False

    def join(self, child: int, parent: str) -> bool:
        """Put a commit below one that was read, if it was: the rest of its log is known then."""
        with self._lock:
            number = self._numbers.get(parent)
            if number is not None:
                self.parents[child] = number
        return number is not None

    def intern(self, content: CatalogContent) -> CatalogContent:
        """An equal content whose strings are shared: ids and keys come again with every commit of a table."""
        if not isinstance(content, TableState):
            return content
        kept = self._states.get(content)
        if kept is None:
            shared = content._replace(
                content_id=self._ids.setdefault(content.content_id, content.content_id),
                content_key=self._keys.setdefault(content.content_key, content.content_key),
            )
            kept = self._states.setdefault(shared, shared)
        return kept

    def _append(self, commit: LoggedCommit) -> int:
        number = len(self.hashes)
        self._numbers[commit.hash] = number
        self.hashes.append(commit.hash)
        self.times.append(commit.time)
        self.contents.append(tuple(self.intern(content) for content in commit.contents))
        self.deleted.append(tuple(self._keys.setdefault(key, key) for key in commit.deleted))
        self.parents.append(ROOT)
        return number


def read_history(
    client: NessieClient,
    config: CatalogConfig,
    history: CommitHistory,
    reference: Reference,
    pages: Sequence[int],
    on_commits: Callable[[int], object],
) -> None:
    """Read a reference's commits from its head until the root, or a commit that is known."""
    if reference.hash == config.no_ancestor_hash or history.number_of(reference.hash) is not None:
        return
    child = None
    for commits in log_of(client, config, reference, pages):
        child, is_known = history.add(commits, child)
        on_commits(len(commits))
        if is_known or (commits[-1].parent and history.join(child, commits[-1].parent)):
            return


def log_of(
    client: NessieClient, config: CatalogConfig, reference: Reference, pages: Sequence[int]
) -> Iterator[Sequence[LoggedCommit]]:
    """A reference's log from its head towards the root, in pages of these sizes, checked that no commit is left out.

    Of a reference that is deleted or moved meanwhile, as jobs do with their branches, the log is that of its hash.
    """
    operation = f"reading the history of {reference}"
    name: str | None = reference.name
    start = expected = reference.hash
    token: str | None = None
    sizes = iter(pages)
    size = next(sizes)
    while True:
        try:
            page = client.history(name, start, page_size=size, page_token=token)
        except CatalogNotFoundError:
            if name is None:
                raise
            name, start, token = None, expected, None
            continue
        if not page.commits:
            raise nonsense(operation, "the server sent no commits where there must be some")
        _check_chain(operation, page.commits, expected)
        yield page.commits
        last = page.commits[-1]
        if page.next_token is None:
            if config.no_ancestor_hash and last.parent not in (None, config.no_ancestor_hash):
                raise nonsense(operation, f"it ends at {last.hash}, which has a parent")
            return
        expected, token = _parent(operation, last), page.next_token
        size = next(sizes, size)


def _check_chain(operation: str, commits: Sequence[LoggedCommit], expected: str) -> None:
    """A log with a commit left out would make all below it look older, or not be there at all."""
    for number, commit in enumerate(commits, start=1):
        if commit.hash != expected:
            raise nonsense(operation, f"the commit {expected} is missing from it")
        if number < len(commits):
            expected = _parent(operation, commit)


def _parent(operation: str, commit: LoggedCommit) -> str:
    if commit.parent is None:
        raise nonsense(operation, f"the commit {commit.hash} came without its parent")
    return commit.parent
