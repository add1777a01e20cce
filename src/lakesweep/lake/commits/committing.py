"""Committing what is staged.

1. The staging token is sealed: writers go to a new one.
2. The sealed tokens are laid over the head; ranges, metarange and commit record are written. Nothing points there yet.
3. One compare-and-set moves the head *and* lets go of exactly those tokens: a reader of the branch sees the entries
   staged, or committed, and never neither. Whoever dies before that leaves them staged, for the next commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.domain.commits import Commit, MetaRangeId
from lakesweep.errors import ObjectNotFoundError
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.metarange_writer import apply_changes
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import DirtyBranchError, MissingError, NoChangesError
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, BranchRecord, too_many_tries
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.staged_values import TOMBSTONE, has_same_identity
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import NO_METADATA, Repository

_SCAN_ROWS = 20_000


@dataclass(eq=False, repr=False)
class Committing:
    """Turns staged entries into commits, and moves heads."""

    _context: LakeContext
    _branches: Branches
    _commits: Commits
    _committed: Committed
    _entries: Entries
    _staging: Staging
    _dropped_tokens: DroppedTokens

    def commit(
        self,
        repository: Repository,
        branch_id: str,
        message: str,
        *,
        committer: str,
        metadata: Mapping[str, str] = NO_METADATA,
        date: datetime | None = None,
        allow_empty: bool = False,
        source_metarange: str | None = None,
    ) -> Commit:
        """Commit everything staged on the branch, or a metarange that the caller made.

        Raises:
            NoChangesError: nothing is staged and `allow_empty` is not set.
            DirtyBranchError: `source_metarange` is given and something is staged.
            TooManyTriesError: others kept moving the branch; what was staged is staged still.
        """
        if source_metarange:
            return self._commit_metarange(
                repository,
                branch_id,
                message,
                MetaRangeId(source_metarange),
                committer=committer,
                metadata=metadata,
                date=date,
            )
        if not allow_empty and self._staging.is_empty(self._branches.read(repository, branch_id)):
            raise _no_changes(repository, branch_id)
        record = self._staging.seal(repository, branch_id)
        for _ in range(MAX_TRIES):
            parent = self._commits.get(repository, record.head.commit_id)
            metarange_id, effective_changes = self._lay_over(repository, record, parent)
            if not effective_changes and not allow_empty:
                raise _no_changes(repository, branch_id)
            commit = self._commits.make(
                repository,
                committer=committer,
                message=message,
                meta_range_id=metarange_id,
                creation_date=date or self._context.now(),
                parents=(parent,),
                metadata=metadata,
            )
            if self._move_head(repository, record, commit):
                return commit
            self._commits.remove_lost(repository, commit)
            record = self._branches.read(repository, branch_id)
        raise too_many_tries(repository, branch_id, "what was staged is staged still")

    def _commit_metarange(
        self,
        repository: Repository,
        branch_id: str,
        message: str,
        metarange_id: MetaRangeId,
        *,
        committer: str,
        metadata: Mapping[str, str],
        date: datetime | None,
    ) -> Commit:
        """Commit a metarange that is in the store already; the branch must be clean."""
        record = self._branches.read(repository, branch_id)
        self.assert_clean(repository, record)
        try:
            self._committed.ranges(repository, metarange_id)
        except ObjectNotFoundError as missing:
            raise MissingError(
                f"repository {repository.id} has no metarange {metarange_id}; nothing was committed",
                kind="metarange-not-found",
            ) from missing
        parent = self._commits.get(repository, record.head.commit_id)
        commit = self._commits.make(
            repository,
            committer=committer,
            message=message,
            meta_range_id=metarange_id,
            creation_date=date or self._context.now(),
            parents=(parent,),
            metadata=metadata,
        )
        if not self.advance(repository, record, commit):
            raise too_many_tries(repository, branch_id, "nothing was committed")
        return commit

    def assert_clean(self, repository: Repository, record: BranchRecord) -> None:
        """Raise `DirtyBranchError` when something is staged."""
        if not self._staging.is_empty(record) and self._has_changes(repository, record):
            raise DirtyBranchError(
                f"branch {record.head.id!r} of {repository.id} has uncommitted changes;"
                " commit or reset them first. Nothing was done."
            )

    def advance(self, repository: Repository, record: BranchRecord, commit: Commit) -> bool:
        """Move the head to a commit whose main parent it is, if the branch is as it was read; staging stays as it is.

        Otherwise the commit is removed: nothing will ever point at it.
        """
        head = replace(record.head, commit_id=commit.id)
        if self._branches.replace(repository, record, head) is None:
            self._commits.remove_lost(repository, commit)
            return False
        return True

    def _lay_over(
        self, repository: Repository, record: BranchRecord, parent: Commit
    ) -> tuple[MetaRangeId, int]:
        base = self._committed.ranges(repository, parent.meta_range_id)
        changes = self._entries.iterate_staged(record.head.sealed_tokens, page_rows=_SCAN_ROWS)
        applied = apply_changes(
            self._committed,
            self._context.store(repository),
            repository,
            base,
            changes,
            keeps_equal=True,
        )
        if not applied.effective_changes:
            return parent.meta_range_id, 0
        return applied.metarange_id, applied.effective_changes

    def _move_head(self, repository: Repository, record: BranchRecord, commit: Commit) -> bool:
        """Set the head and let go of the tokens the commit holds. False when the head moved: then all is to do again."""
        committed_tokens = record.head.sealed_tokens
        self._dropped_tokens.note(repository, record.head.id, committed_tokens, self._context.now())
        for _ in range(MAX_TRIES):
            newer = record.head.sealed_tokens[
                : len(record.head.sealed_tokens) - len(committed_tokens)
            ]
            is_as_read = (
                record.head.commit_id == commit.parents[0]
                and record.head.sealed_tokens[len(newer) :] == committed_tokens
            )
            if not is_as_read:
                return False
            head = replace(record.head, commit_id=commit.id, sealed_tokens=newer)
            if self._branches.replace(repository, record, head) is not None:
                return True
            # Others may only have sealed further tokens; those stay attached, and this commit still holds.
            record = self._branches.read(repository, record.head.id)
        return False

    def _has_changes(self, repository: Repository, record: BranchRecord) -> bool:
        for key, value in self._entries.iterate_staged(record.tokens):
            base = self._entries.find_committed(repository, record.head, key)
            if is_change(base, value):
                return True
        return False


def is_change(committed: bytes | None, staged: bytes) -> bool:
    """Whether a staged value makes a difference to what is committed at its path."""
    if committed is None:
        return staged != TOMBSTONE
    return not has_same_identity(committed, staged)


def _no_changes(repository: Repository, branch_id: str) -> NoChangesError:
    return NoChangesError(
        f"branch {branch_id!r} of {repository.id} has no changes; nothing was committed"
    )
