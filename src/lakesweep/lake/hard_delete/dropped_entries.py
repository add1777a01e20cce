"""From staging tokens that branches let go of to the queue: their entries lost a reference each.

The note that a branch makes before it drops a token is the durable sign. A token that is attached still is left for
later. One that a commit took over is compared with that commit, which holds most of what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.context import LakeContext
from lakesweep.lake.hard_delete.queue import Dropped, Queue
from lakesweep.lake.kv.interface import Change, Row, scan, unique
from lakesweep.lake.staging.dropped_tokens import DroppedToken, DroppedTokens
from lakesweep.lake.staging.staged_values import TOMBSTONE
from lakesweep.lake.values import Repository

_ROWS_AT_ONCE = 2_000


@dataclass(eq=False, repr=False)
class DroppedEntries:
    """Queues the entries of dropped tokens."""

    _context: LakeContext
    _committed: Committed
    _dropped_tokens: DroppedTokens
    _queue: Queue

    def queue_all(self, repository: Repository) -> None:
        """Queue what is in tokens that were dropped since the last time."""
        for token in self._dropped_tokens.not_queued(repository):
            self._queue_token(repository, token)

    def _queue_token(self, repository: Repository, token: DroppedToken) -> None:
        notes: list[Change] = []
        for key, value in self._not_committed(repository, token):
            if value != TOMBSTONE:
                path = key.decode(errors="replace")
                dropped = Dropped("", token.branch_id, path, token.at, value)
                notes.append(self._queue.note(repository, dropped))
            if len(notes) == _ROWS_AT_ONCE:
                self._context.kv.change_all(unique(notes))
                notes.clear()
        self._context.kv.change_all([*unique(notes), self._dropped_tokens.queued(token)])

    def _not_committed(self, repository: Repository, token: DroppedToken) -> Iterator[Row]:
        """The token's entries but those that the commit has which the token was dropped for."""
        rows = scan(self._context.kv, token.token)
        if token.commit_id is None:
            yield from rows
            return
        metarange_id = self._committed.metarange_of(repository, token.commit_id)
        for key, value in rows:
            if self._committed.find(repository, metarange_id, key) != value:
                yield key, value
