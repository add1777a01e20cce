"""Removing what has had its time. Every step is a compare-and-set or safe to repeat, so several servers may do it.

A round costs little whatever there is: each step takes the oldest first and only so many of them. What needs the object
store is done once an hour.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakesweep.domain.commits import HeadMove
from lakesweep.errors import LakesweepError
from lakesweep.lake.collection.prepared_lists import remove_old_lists
from lakesweep.lake.collection.retention_rules import RetentionRulesStore
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import MissingError
from lakesweep.lake.hard_delete.batches import FenceBatches
from lakesweep.lake.hard_delete.ledger import DeleteLedger
from lakesweep.lake.hard_delete.tombs import Tombs
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.head_moves import HeadMoves
from lakesweep.lake.refs.repositories import Repositories
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.tasks import Tasks
from lakesweep.lake.uploads.multipart import Multipart
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.uploads.presigned_multipart import PresignedMultipart
from lakesweep.lake.values import Repository
from lakesweep.storage import Leftovers

logger = logging.getLogger(__name__)

_DEEP_ROUND = timedelta(hours=1)
_MOST_MOVES = 500
_MOST_FILES = 20_000
# Beyond the longest rule, so that a rule made a little longer still finds its moves.
_RULES_GRACE = timedelta(days=30)
# An upload under way writes to its file far more often.
_LEFTOVER_AGE = timedelta(days=2)


@dataclass(eq=False, repr=False)
class Housekeeping:
    """The periodic job."""

    _context: LakeContext
    _repositories: Repositories
    _commits: Commits
    _head_moves: HeadMoves
    _rules: RetentionRulesStore
    _pending: PendingUploads
    _multipart: Multipart
    _presigned_multipart: PresignedMultipart
    _copies: TrackedCopies
    _dropped_tokens: DroppedTokens
    _tasks: Tasks
    _delete_ledger: DeleteLedger
    _tombs: Tombs
    _fence_batches: FenceBatches
    _leftovers: dict[str, Leftovers] = field(default_factory=dict, init=False)
    _next_deep_round: datetime | None = field(default=None, init=False)

    def run(self, now: datetime | None = None) -> None:
        """One round."""
        now = now or self._context.now()
        is_deep = self._next_deep_round is None or now >= self._next_deep_round
        if is_deep:
            self._next_deep_round = now + _DEEP_ROUND
        reviewed: set[str] = set()
        for repository in self._repositories.all():
            if self._context.hard_deletes(repository):
                reviewed.add(partition_of(repository))
            for found in self._pending.all(repository):
                self._pending.retire_if_over(repository, found, now)
            self._copies.remove_old(repository, now)
            self._tasks.remove_old(repository, now)
            self._delete_ledger.remove_old(repository, now)
            self._fence_batches.remove_old(repository, now)
            with _going_on_without(repository):
                self._multipart.remove_ended(repository)
            if is_deep and not repository.is_read_only:
                self._look_into_store(repository, now)
        self._dropped_tokens.remove_old(now, reviewed)

    def _look_into_store(self, repository: Repository, now: datetime) -> None:
        with _going_on_without(repository):
            self._remove_leftovers(repository, now)
            self._tombs.remove_old(repository, now)
            self._presigned_multipart.remove_ended(repository)
            self._remove_head_moves(repository, now)
            remove_old_lists(self._context, repository, now)

    def _remove_head_moves(self, repository: Repository, now: datetime) -> None:
        """Forget moves past every rule: neither the head that was left nor anything behind it is retained by them."""
        if not self._head_moves.page(repository, amount=1).results:
            return
        rules = self._rules.find(repository)
        if rules is None:
            # Rules that are set one day may reach back as far as they like.
            return
        days = max(rules.default_retention_days, *rules.branch_retention_days.values(), 0)
        if days >= (now - datetime.min.replace(tzinfo=now.tzinfo) - _RULES_GRACE).days:
            return
        threshold = now - timedelta(days=days) - _RULES_GRACE

        def is_over(move: HeadMove) -> bool:
            if move.until >= threshold:
                return False
            try:
                # A client may have dated it later than it was made.
                return self._commits.get(repository, move.commit_id).creation_date < threshold
            except MissingError:
                return False

        self._head_moves.remove_some(repository, is_over, _MOST_MOVES)

    def _remove_leftovers(self, repository: Repository, now: datetime) -> None:
        """Remove half-written files of killed uploads, where the store is a folder."""
        namespace = self._context.namespace(repository)
        if namespace.kind != "local":
            return
        root = f"/{namespace.key}"
        found = self._leftovers.setdefault(root, Leftovers(root))
        found.remove_some((now - _LEFTOVER_AGE).timestamp(), _MOST_FILES)


@contextmanager
def _going_on_without(repository: Repository) -> Iterator[None]:
    """One repository's store must not keep the others from their upkeep."""
    try:
        yield
    except LakesweepError as failed:
        logger.warning("upkeep of repository %s was not finished: %s", repository.id, failed)
