"""What is live in a world, told from its raw records by plain rules: what the checks hold the actors' deeds against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from lakesweep.domain.commits import BranchHead, CommitGraph, CommitId, HeadMove, MetaRangeId
from lakesweep.domain.retention import retained_commits
from lakesweep.lake.commits.commit_records import _decode as decode_commit
from lakesweep.lake.context import partition_of
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.records import decode_record
from lakesweep.lake.refs.branches import decode_branch
from lakesweep.lake.refs.head_moves import _decode as decode_move
from lakesweep.lake.refs.tags import _decode as decode_tag
from lakesweep.lake.staging.staged_values import TOMBSTONE, decode_staged
from lakesweep.lake.uploads.pending import PendingUpload
from lakesweep.lake.uploads.pending import _decode as decode_upload
from lakesweep_testing.schedules.world import World

address_in = lru_cache(maxsize=4096)(lambda value: decode_staged(value).address)
"""The address in a staged value."""
_commit_in = lru_cache(maxsize=4096)(decode_commit)
_upload_in = lru_cache(maxsize=4096)(decode_upload)


class References:
    """Reads a world's references. One for all schedules of a program: it remembers what never changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._copies = TrackedCopies(world.lake.repositories._context)
        self._addresses: dict[MetaRangeId, frozenset[str]] = {}
        self._committed: dict[object, dict[str, str]] = {}
        self.quiet_ends: dict[int, str] = {}
        """What a later, quiet collection left to complain of, by a fingerprint of the state that it was given."""
        self.staged_at_first = frozenset(self.staged())
        self.expired = frozenset(
            self.in_any_commit() - self.committed().keys() - self.staged_at_first
        )
        """What lay in expired commits, and nowhere else, when the schedule began."""

    def live(self) -> dict[str, str]:
        """Why each live address is live, in words."""
        return {**self.committed(), **self.pending(), **self.staged()}

    def staged(self) -> dict[str, str]:
        """Addresses of staged entries, of all tokens of all branches."""
        found = {}
        for head in self._heads():
            for token in (head.staging_token, *head.sealed_tokens):
                for key, value in self._rows(token):
                    if value != TOMBSTONE:
                        found[address_in(value)] = f"staged at {key.decode()!r} on {head.id}"
        return found

    def pending(self) -> dict[str, str]:
        """Addresses of uploads under way."""
        now, end_of = self._world.now, self._world.lake.pending.end_of
        uploads: Iterator[PendingUpload] = (_upload_in(raw) for _, raw in self._own(b"pending/"))
        return {
            upload.address: f"an upload under way to {upload.path!r}"
            for upload in uploads
            if upload.state != "ending" and now < end_of(upload)
        }

    def tracked(self) -> set[str]:
        """Addresses of tracked copies whose time is not over."""
        now = self._world.now
        return {
            address_in(value)
            for key, value in self._own(b"copies/")
            if now < self._copies.end_of(key)
        }

    def in_any_commit(self) -> set[str]:
        """Addresses that some commit record holds."""
        return set().union(*(self._in_metarange(c.meta_range_id) for c in self._graph()))

    def named_by_reviews(self) -> set[str]:
        """What reviews have recorded that they delete."""
        rows = self._own(b"hard-delete/ledger/")
        return {row["address"] for _, raw in rows for row in decode_record(raw)["rows"]}

    def committed(self) -> dict[str, str]:
        """Addresses in retained commits."""
        heads = tuple(self._heads())
        moves = tuple(self._own(b"head-moves/"))
        tags = tuple(self._own(b"tags/")) if self._world.keep_tags else ()
        commits = tuple(key for key, _ in self._own(b"commits/"))
        at = tuple((head.id, head.commit_id) for head in heads)
        known = (at, moves, tags, commits, str(self._world.rules), self._world.now)
        if known not in self._committed:
            self._committed[known] = self._in_retained(heads, moves, tags)
        return self._committed[known]

    def _in_retained(
        self,
        heads: tuple[BranchHead, ...],
        moves: tuple[tuple[bytes, bytes], ...],
        tags: tuple[tuple[bytes, bytes], ...],
    ) -> dict[str, str]:
        rules = self._world.rules
        left: list[HeadMove] = [decode_move(row) for row in moves]
        keep = [decode_tag(raw).commit_id for _, raw in tags]
        roots = [*(head.commit_id for head in heads), *(move.commit_id for move in left), *keep]
        graph = self._without_unfinished(roots)
        retained = retained_commits(graph, heads, rules, self._world.now, left, keep=keep)
        return {
            address: f"in commit “{graph[commit].message}” ({why})"
            for commit, why in retained.why.items()
            for address in self._in_metarange(graph[commit].meta_range_id)
        }

    def _graph(self) -> CommitGraph:
        return CommitGraph(_commit_in(raw) for _, raw in self._own(b"commits/"))

    def _without_unfinished(self, roots: list[CommitId]) -> CommitGraph:
        """All commits but those that a request has made and nothing points at: it may yet take them away itself."""
        graph = self._graph()
        finished = (raw for _, raw in self._own(b"commits/") if b'"maker"' not in raw)
        waiting = [*roots, *(_commit_in(raw).id for raw in finished)]
        reached: set[CommitId] = set()
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in reached:
                reached.add(commit_id)
                waiting += graph[commit_id].parents
        return CommitGraph(graph[commit_id] for commit_id in sorted(reached))

    def _in_metarange(self, metarange_id: MetaRangeId) -> frozenset[str]:
        if metarange_id not in self._addresses:
            committed = self._world.lake.committing._committed
            rows = committed.iterate(self._world.repository, metarange_id)
            self._addresses[metarange_id] = frozenset(address_in(value) for _, value in rows)
        return self._addresses[metarange_id]

    def _heads(self) -> Iterator[BranchHead]:
        return (decode_branch(raw) for _, raw in self._own(b"branches/"))

    def _own(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        rows = self._rows(partition_of(self._world.repository))
        return [row for row in rows if row[0].startswith(prefix)]

    def _rows(self, partition: str) -> list[tuple[bytes, bytes]]:
        found = self._world.kv._partitions.get(partition)
        return [] if found is None else list(found.values.items())
