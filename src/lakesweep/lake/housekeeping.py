"""Removing what has had its time. Every step is a compare-and-set or safe to repeat, so several servers may do it."""

from __future__ import annotations

from datetime import datetime

from lakesweep.lake.context import LakeContext
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.repositories import Repositories
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.tasks import Tasks
from lakesweep.lake.uploads.multipart import Multipart
from lakesweep.lake.uploads.pending import PendingUploads


class Housekeeping:
    """The periodic job."""

    def __init__(
        self,
        context: LakeContext,
        repositories: Repositories,
        pending: PendingUploads,
        multipart: Multipart,
        copies: TrackedCopies,
        dropped_tokens: DroppedTokens,
        tasks: Tasks,
    ) -> None:
        self._context = context
        self._repositories = repositories
        self._pending = pending
        self._multipart = multipart
        self._copies = copies
        self._dropped_tokens = dropped_tokens
        self._tasks = tasks

    def run(self, now: datetime | None = None) -> None:
        """One round."""
        now = now or self._context.now()
        for repository in list(self._repositories.all()):
            for found in list(self._pending.all(repository)):
                self._pending.retire_if_over(repository, found, now)
            self._multipart.remove_ended(repository)
            self._copies.remove_old(repository, now)
            self._tasks.remove_old(repository, now)
        self._dropped_tokens.remove_old(now)
