"""What a branch or a commit holds: staged entries over sealed ones over the head commit."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lakesweep.domain.commits import BranchHead, MetaRangeId
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import Row, scan
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.staging.staged_values import TOMBSTONE
from lakesweep.lake.values import Repository

_LayeredRow = tuple[bytes, int, bytes]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A branch or commit as it was when it was looked up."""

    find: Callable[[bytes], bytes | None]
    """The value at a path, or None."""
    iterate: Callable[[bytes, bytes | None], Iterator[Row]]
    """Values with a prefix, after a path (exclusive), in path order."""


@dataclass(eq=False, repr=False)
class Entries:
    """Reads values (records) by path. Tokens named by a branch record stay readable after a commit cleared them."""

    _context: LakeContext
    _branches: Branches
    _committed: Committed
    _refs: Refs

    def at(self, repository: Repository, ref: str) -> Snapshot:
        """What a ref expression means now; a branch comes with what is staged on it."""
        resolved = self._refs.resolve(repository, ref)
        head = resolved.branch
        if head is not None:
            return Snapshot(
                lambda key: self.find_on_branch(repository, head, key),
                lambda prefix, after: self.iterate_branch(
                    repository, head, prefix=prefix, after=after
                ),
            )
        metarange_id = self._committed.metarange_of(repository, resolved.commit_id)
        return Snapshot(
            lambda key: self._committed.find(repository, metarange_id, key),
            lambda prefix, after: self._iterate_commit(repository, metarange_id, prefix, after),
        )

    def find_on_branch(self, repository: Repository, head: BranchHead, key: bytes) -> bytes | None:
        """The value a reader of the branch sees: newest staging first, a tombstone ending the search."""
        staged = self.find_staged(head, key)
        if staged is not None:
            return None if staged == TOMBSTONE else staged
        return self.find_committed(repository, head, key)

    def find_staged(self, head: BranchHead, key: bytes) -> bytes | None:
        """The newest staged value, a tombstone included; None when the path is not staged at all."""
        for token in (head.staging_token, *head.sealed_tokens):
            value = self._context.kv.get(token, key)
            if value is not None:
                return value
        return None

    def find_committed(self, repository: Repository, head: BranchHead, key: bytes) -> bytes | None:
        """The value in the head commit."""
        metarange_id = self._committed.metarange_of(repository, head.commit_id)
        return self._committed.find(repository, metarange_id, key)

    def iterate_branch(
        self,
        repository: Repository,
        head: BranchHead,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
    ) -> Iterator[Row]:
        """What a reader of the branch sees, in path order."""
        metarange_id = self._committed.metarange_of(repository, head.commit_id)
        tokens = (head.staging_token, *head.sealed_tokens)
        layers = [self._scan_token(token, prefix, after) for token in tokens]
        base = self._iterate_commit(repository, metarange_id, prefix, after)
        merged = overlay([*layers, base])
        return ((key, value) for key, value in merged if value != TOMBSTONE)

    def iterate_staged(
        self,
        tokens: Iterable[str],
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        page_rows: int = 1000,
    ) -> Iterator[Row]:
        """Staged values of several tokens (newest first), tombstones included, in path order."""
        return overlay([self._scan_token(token, prefix, after, page_rows) for token in tokens])

    def _scan_token(
        self, token: str, prefix: bytes, after: bytes | None, page_rows: int = 1000
    ) -> Iterator[Row]:
        return scan(self._context.kv, token, prefix=prefix, after=after, page_rows=page_rows)

    def _iterate_commit(
        self,
        repository: Repository,
        metarange_id: MetaRangeId,
        prefix: bytes,
        after: bytes | None,
    ) -> Iterator[Row]:
        start = prefix if after is None else max(prefix, after + b"\x00")
        for key, value in self._committed.iterate(repository, metarange_id, start):
            if not key.startswith(prefix):
                return
            yield key, value


def overlay(layers: list[Iterator[Row]]) -> Iterator[Row]:
    """Rows of all layers in key order; where several have a key, the first layer's."""
    if len(layers) == 1:
        yield from layers[0]
        return
    last_key: bytes | None = None
    ranked = [_ranked(layer, rank) for rank, layer in enumerate(layers)]
    for key, _, value in heapq.merge(*ranked):
        if key != last_key:
            yield key, value
            last_key = key


def _ranked(layer: Iterator[Row], rank: int) -> Iterator[_LayeredRow]:
    return ((key, rank, value) for key, value in layer)
