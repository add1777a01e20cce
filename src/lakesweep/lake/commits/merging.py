"""Merging a ref into a branch, three-way by path on the content's identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.lake.commits.ancestry import merge_base
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.commits.comparing import three_way
from lakesweep.lake.commits.metarange_writer import apply_changes
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import InvalidRequestError, MergeConflictError, NoChangesError
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, too_many_tries
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.staging.staged_values import TOMBSTONE
from lakesweep.lake.values import NO_METADATA, MergeBase, MergeStrategy, Repository

STRATEGY_KEY = ".lakefs.merge.strategy"
_STRATEGY_NAMES: dict[str, str] = {
    "": "default",
    "dest-wins": "dest-wins",
    "source-wins": "source-wins",
}


@dataclass(eq=False, repr=False)
class Merging:
    """Merges, and the three-way step that reverts and cherry-picks share."""

    _context: LakeContext
    _refs: Refs
    _branches: Branches
    _commits: Commits
    _committed: Committed
    _committing: Committing

    def merge(
        self,
        repository: Repository,
        source_ref: str,
        destination_branch: str,
        *,
        committer: str,
        message: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
        strategy: MergeStrategy = "",
        allow_empty: bool = False,
        squash_merge: bool = False,
    ) -> CommitId:
        """Merge, and give the merge commit's id."""
        if strategy not in _STRATEGY_NAMES:
            raise InvalidRequestError(
                f"{strategy!r} is not a merge strategy; use 'dest-wins' or 'source-wins'",
                kind="invalid-strategy",
            )
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, destination_branch)
            self._committing.assert_clean(repository, record)
            source = self._commits.get(
                repository, self._refs.resolve(repository, source_ref).commit_id
            )
            # A squashed commit names no parent that would hold it.
            self._commits.hold(repository, source.id)
            destination = self._commits.get(repository, record.head.commit_id)
            base = merge_base(self._commits, repository, source.id, destination.id)
            if source.meta_range_id == base.meta_range_id and not allow_empty:
                raise NoChangesError(
                    f"{source_ref!r} brings nothing to branch {destination_branch!r} of"
                    f" {repository.id}; nothing was merged"
                )
            metarange_id = self.three_way_metarange(
                repository,
                base_id=base.meta_range_id,
                source_id=source.meta_range_id,
                destination_id=destination.meta_range_id,
                strategy=strategy,
            )
            commit = self._commits.make(
                repository,
                committer=committer,
                message=message or f"Merge '{source_ref}' into '{destination_branch}'",
                meta_range_id=metarange_id,
                creation_date=self._context.now(),
                parents=(destination,) if squash_merge else (destination, source),
                metadata={**metadata, STRATEGY_KEY: _STRATEGY_NAMES[strategy]},
            )
            if self._committing.advance(repository, record, commit):
                return commit.id
        raise too_many_tries(repository, destination_branch, "nothing was merged")

    def merge_base(
        self, repository: Repository, source_ref: str, destination_ref: str
    ) -> MergeBase:
        """The commits a merge would start from."""
        source = self._refs.resolve(repository, source_ref).commit_id
        destination = self._refs.resolve(repository, destination_ref).commit_id
        base = merge_base(self._commits, repository, source, destination)
        return MergeBase(source, destination, base.id)

    def three_way_metarange(
        self,
        repository: Repository,
        *,
        base_id: MetaRangeId,
        source_id: MetaRangeId,
        destination_id: MetaRangeId,
        strategy: MergeStrategy,
    ) -> MetaRangeId:
        """The metarange of the destination with what the source changed since the base."""
        if destination_id == base_id:
            return source_id
        if source_id == base_id:
            return destination_id
        applied = apply_changes(
            self._committed,
            self._context.store(repository),
            repository,
            self._committed.ranges(repository, destination_id),
            self._changes(repository, base_id, source_id, destination_id, strategy),
            keeps_equal=False,
        )
        return applied.metarange_id

    def _changes(
        self,
        repository: Repository,
        base_id: MetaRangeId,
        source_id: MetaRangeId,
        destination_id: MetaRangeId,
        strategy: MergeStrategy,
    ) -> Iterator[Row]:
        changed = three_way(
            self._committed,
            repository,
            base_id=base_id,
            source_id=source_id,
            destination_id=destination_id,
        )
        for key, _, source, _, is_conflict in changed:
            if is_conflict and strategy == "dest-wins":
                continue
            if is_conflict and not strategy:
                raise MergeConflictError(
                    f"both sides changed {key.decode(errors='replace')!r} in repository {repository.id};"
                    " nothing was merged. Choose a strategy, or make one side agree."
                )
            yield key, TOMBSTONE if source is None else source
