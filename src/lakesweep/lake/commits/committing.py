"""Committing what is staged.

1. The staging token is sealed: writers go to a new one.
2. The sealed tokens are laid over the head; ranges, metarange and commit record are written. Nothing points there yet.
3. One compare-and-set moves the head *and* lets go of exactly those tokens: a reader of the branch sees the entries
   staged, or committed, and never neither. Whoever dies before that leaves them staged, for the next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

from lakesweep.domain.commits import Commit, MetaRangeId
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.lake.collection.staged_scan import staged_among
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.metarange_writer import apply_changes
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import (
    DirtyBranchError,
    LakeError,
    MissingError,
    NoChangesError,
    RefStoreError,
)
from lakesweep.lake.hard_delete.fence import Fence, FenceMovedError, FoundFence
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, BranchRecord, sealed, too_many_tries
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
    _fence: Fence
    _revivals: Revivals

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
        # Read before what is sealed is known to be on the branch: see `hard_delete.fence`.
        fence = self._fence.read(repository)
        record = self._staging.seal(repository, branch_id)
        for _ in range(MAX_TRIES):
            parent = self._commits.get(repository, record.head.commit_id)
            metarange_id, effective_changes = self._lay_over(repository, record, parent)
            if not effective_changes and not allow_empty:
                self._let_go_of_sealed(repository, record)
                raise _no_changes(repository, branch_id)
            commit = self._make_under_fence(
                repository,
                fence,
                partial(self._is_staged_still, repository, record, parent, metarange_id, fence),
                partial(
                    self._commits.make,
                    repository,
                    committer=committer,
                    message=message,
                    meta_range_id=metarange_id,
                    creation_date=date or self._context.now(),
                    parents=(parent,),
                    metadata=metadata,
                ),
            )
            if commit is not None:
                if self._move_head(repository, record, commit):
                    return commit
                # Others moved the head. A commit that nothing points at would keep its objects for ever.
                self._commits.remove_lost(repository, commit)
            fence = self._fence.read(repository)
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
        fence = self._fence.read(repository)
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

        def is_known(fence: FoundFence) -> bool:
            self._commits.refuse_unknown(repository, fence, metarange_id)
            return True

        commit = self._make_under_fence(
            repository,
            fence,
            is_known,
            partial(
                self._commits.make,
                repository,
                committer=committer,
                message=message,
                meta_range_id=metarange_id,
                creation_date=date or self._context.now(),
                parents=(parent,),
                metadata=metadata,
            ),
        )
        if commit is None or not self.advance(repository, record, commit):
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
        """Move the head to a commit whose main parent it is, if the branch is as it was read and nothing is staged.

        What is staged with the content that the head has is let go of: over another head it would hide what that brings.
        Otherwise the commit is removed: nothing will ever point at it. Where nobody knows whether the head moved, it stays.
        """
        try:
            if not self._staging.is_empty(record):
                sealed_record = self._seal_clean(repository, record)
                if sealed_record is None:
                    self._commits.remove_lost(repository, commit)
                    return False
                record = sealed_record
            let_go = record.head.sealed_tokens
            self._dropped_tokens.note(repository, record.head.id, let_go, self._context.now())
            head = replace(record.head, commit_id=commit.id, sealed_tokens=())
            while True:
                fence = self._revivals.fence(repository)
                self._revivals.refuse_metarange(
                    repository, fence, commit.meta_range_id, "nothing was committed"
                )
                if self._branches.replace(repository, record, head, fence.held) is not None:
                    return True
                if self._branches.read(repository, head.id).raw != record.raw:
                    break
        except RefStoreError:
            # The head may have moved though the answer got lost. A commit too many harms nobody, one too few all readers.
            raise
        except LakeError:
            self._commits.remove_lost(repository, commit)
            raise
        self._commits.remove_lost(repository, commit)
        return False

    def _seal_clean(self, repository: Repository, record: BranchRecord) -> BranchRecord | None:
        """Seal what is staged, none of which is a change; None when the branch is not as it was read.

        Looked at again once it is sealed: a change that was staged before is in it, and one that comes later is staged
        anew by its writer.
        """
        done = self._branches.replace(repository, record, sealed(repository, record.head))
        if done is not None:
            self.assert_clean(repository, done)
        return done

    def _make_under_fence(
        self,
        repository: Repository,
        fence: FoundFence,
        may_make: Callable[[FoundFence], bool],
        make: Callable[..., Commit],
    ) -> Commit | None:
        """Store a commit while the fence is as read; None when what it is made of is not there any more.

        Args:
            may_make: looks, after the fence was read, whether what the commit is made of is there; raises
                `CondemnedError` when some of it is being deleted.
        """
        while may_make(fence):
            try:
                return make(held=fence.held)
            except FenceMovedError:
                fence = self._fence.read(repository)
        return None

    def _is_staged_still(
        self,
        repository: Repository,
        record: BranchRecord,
        parent: Commit,
        metarange_id: MetaRangeId,
        read_before: FoundFence,
        fence: FoundFence,
    ) -> bool:
        """Whether what the metarange adds to the parent is staged on the branch, none of it being deleted.

        That is known by the fence that was read before the entries were. By a later one they are looked at again: a
        writer that was slow may have written over some of them, though their token is sealed.
        """
        tokens = record.head.sealed_tokens
        condemned = fence.state.condemned
        for token in tokens if condemned else ():
            met = staged_among(self._context, repository, token, condemned)
            self._fence.refuse_condemned(repository, fence, met, "nothing was committed")
        if fence == read_before:
            return True
        added = self._added_addresses(repository, parent.meta_range_id, metarange_id)
        for token in tokens:
            added -= staged_among(self._context, repository, token, added)
        attached = self._branches.read(repository, record.head.id).tokens
        return not added and set(tokens) <= set(attached)

    def _added_addresses(
        self, repository: Repository, parent_id: MetaRangeId, metarange_id: MetaRangeId
    ) -> set[str]:
        """Addresses in the ranges that a metarange has and its parent has not, but those in the ranges they replace."""
        before = {info.id: info for info in self._committed.ranges(repository, parent_id)}
        after = {info.id: info for info in self._committed.ranges(repository, metarange_id)}

        def addresses(infos: Iterable[RangeInfo]) -> set[str]:
            found = (self._committed.addresses(repository, info).to_pylist() for info in infos)
            return set(chain.from_iterable(found))

        new = addresses(info for id_, info in after.items() if id_ not in before)
        return new - addresses(info for id_, info in before.items() if id_ not in after)

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
        noted_at = self._context.now()
        # Before the head moves: whoever dies in between leaves a note too many, and no token that nobody knows of.
        self._dropped_tokens.note(repository, record.head.id, committed_tokens, noted_at)
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
                if self._context.hard_deletes(repository):
                    self._dropped_tokens.note_commit(
                        repository, head.id, committed_tokens, noted_at, commit.id
                    )
                return True
            # Others may only have sealed further tokens; those stay attached, and this commit still holds.
            found = self._branches.find(repository, record.head.id)
            if found is None:
                return False
            record = found
        return False

    def _let_go_of_sealed(self, repository: Repository, record: BranchRecord) -> None:
        """Let go of sealed tokens in which nothing is a change, if the branch is as it was read.

        One of them stays, as in lakeFS. With each further commit without changes there would be one more, and its objects.
        """
        let_go = record.head.sealed_tokens
        if len(let_go) < 2:
            return
        self._dropped_tokens.note(repository, record.head.id, let_go, self._context.now())
        self._branches.replace(repository, record, replace(record.head, sealed_tokens=()))

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
