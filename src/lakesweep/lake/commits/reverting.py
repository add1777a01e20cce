"""Undoing a commit, or doing it again elsewhere: both are three-way steps with another base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.domain.commits import Commit
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.commits.merging import Merging
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError, InvalidRequestError, NoChangesError
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, too_many_tries
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.values import Repository

_ORIGIN_KEY = "cherry-pick-origin"
_ORIGINAL_COMMITTER_KEY = "cherry-pick-committer"


@dataclass(eq=False, repr=False)
class Reverting:
    """Reverts and cherry-picks."""

    _context: LakeContext
    _refs: Refs
    _branches: Branches
    _commits: Commits
    _committing: Committing
    _merging: Merging

    def revert(
        self,
        repository: Repository,
        branch_id: str,
        ref: str,
        *,
        committer: str,
        parent_number: int = 0,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Commit:
        """Merge the commit's parent into the branch, the commit itself being the base."""
        reverted = self._commit_of(repository, ref)
        if len(reverted.parents) > 1 and parent_number <= 0:
            raise ConflictError(
                f"commit {reverted.id} is a merge; say which parent to go back to. Nothing was done.",
                kind="revert-of-merge",
            )
        parent = self._parent(repository, reverted, parent_number)
        return self._step(
            repository,
            branch_id,
            base=reverted,
            source=parent,
            committer=committer,
            message=message if message is not None else f"Revert {reverted.id}",
            metadata=metadata or {},
            allow_empty=allow_empty,
        )

    def cherry_pick(
        self,
        repository: Repository,
        branch_id: str,
        ref: str,
        *,
        committer: str,
        parent_number: int | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Merge the commit into the branch, its parent being the base."""
        picked = self._commit_of(repository, ref)
        if len(picked.parents) > 1 and not parent_number:
            raise InvalidRequestError(
                f"commit {picked.id} is a merge; say against which parent to pick it. Nothing was done.",
                kind="pick-of-merge",
            )
        parent = self._parent(repository, picked, parent_number or 0)
        return self._step(
            repository,
            branch_id,
            base=parent,
            source=picked,
            committer=committer,
            message=message if message is not None else picked.message,
            metadata={
                **(picked.metadata if metadata is None else metadata),
                _ORIGIN_KEY: picked.id,
                _ORIGINAL_COMMITTER_KEY: picked.committer,
            },
            # As in lakeFS: a commit that changed nothing can't be picked, one whose change is there already can.
            allow_empty=picked.meta_range_id != parent.meta_range_id,
        )

    def _step(
        self,
        repository: Repository,
        branch_id: str,
        *,
        base: Commit,
        source: Commit,
        committer: str,
        message: str,
        metadata: Mapping[str, str],
        allow_empty: bool,
    ) -> Commit:
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            self._committing.assert_clean(repository, record)
            head = self._commits.get(repository, record.head.commit_id)
            metarange_id = self._merging.three_way_metarange(
                repository,
                base_id=base.meta_range_id,
                source_id=source.meta_range_id,
                destination_id=head.meta_range_id,
                strategy="",
            )
            if metarange_id == head.meta_range_id and not allow_empty:
                raise NoChangesError(
                    f"branch {branch_id!r} of {repository.id} would not change; nothing was committed"
                )
            commit = self._commits.make(
                repository,
                committer=committer,
                message=message,
                meta_range_id=metarange_id,
                creation_date=self._context.now(),
                parents=(head,),
                metadata=metadata,
            )
            if self._committing.advance(repository, record, commit):
                return commit
        raise too_many_tries(repository, branch_id, "nothing was committed")

    def _commit_of(self, repository: Repository, ref: str) -> Commit:
        return self._commits.get(repository, self._refs.resolve_to_point_at(repository, ref))

    def _parent(self, repository: Repository, commit: Commit, number: int) -> Commit:
        if not 0 <= number <= len(commit.parents) or not commit.parents:
            raise InvalidRequestError(
                f"commit {commit.id} has {len(commit.parents)} parents, not a parent {number};"
                " nothing was done",
                kind="parent-out-of-range",
            )
        return self._commits.get(repository, commit.parents[max(number, 1) - 1])
