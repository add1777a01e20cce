"""The lake's operations on repositories, branches, tags, commits, and what leads from one to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakesweep.domain.commits import BranchHead, Commit, CommitId, MetaRangeId, Tag
from lakesweep.lake.lake_base import LakeBase
from lakesweep.lake.values import (
    DiffEntry,
    DiffMode,
    MergeBase,
    MergeStrategy,
    Page,
    Repository,
    ResetType,
    ResolvedRef,
)


class HistoryOperations(LakeBase):
    """Versions of the data. Every change of a reference is one compare-and-set in the ref store."""

    # -- repositories

    def create_repository(
        self,
        repository_id: str,
        storage_namespace: str,
        *,
        default_branch: str = "main",
        is_read_only: bool = False,
        is_bare: bool = False,
    ) -> Repository:
        """Create a repository with its first commit and default branch (a bare one has neither).

        Raises:
            InvalidRequestError: bad name or namespace; the namespace is in use, or lies inside or around another's.
            ConflictError: `repository-exists`.
        """
        return self._parts.repositories.create(
            repository_id,
            storage_namespace,
            default_branch=default_branch,
            is_read_only=is_read_only,
            is_bare=is_bare,
        )

    def get_repository(self, repository_id: str) -> Repository:
        """The repository; `MissingError` without it, `GoneError` while it is being deleted."""
        return self._parts.repositories.get(repository_id)

    def list_repositories(
        self, *, prefix: str = "", after: str = "", amount: int = 100, search: str = ""
    ) -> Page[Repository]:
        """Repositories in id order; `search` keeps ids that contain it."""
        return self._parts.repositories.page(
            prefix=prefix, after=after, amount=amount, search=search
        )

    def delete_repository(self, repository_id: str, *, force: bool = False) -> None:
        """Forget a repository: its records go, its objects stay where they are."""
        self._parts.repositories.delete(repository_id, force=force)

    # -- branches

    def create_branch(
        self,
        repository_id: str,
        branch_id: str,
        source_ref: str,
        *,
        is_hidden: bool = False,
        force: bool = False,
    ) -> BranchHead:
        """Create a branch at the commit that `source_ref` means; staged changes of the source stay there."""
        repository = self._writable(repository_id, force=force)
        source = self._parts.refs.resolve(repository, source_ref)
        return self._parts.branches.create(
            repository, branch_id, source.commit_id, is_hidden=is_hidden
        )

    def get_branch(self, repository_id: str, branch_id: str) -> BranchHead:
        """The branch and its head; `MissingError` (`branch-not-found`)."""
        return self._parts.branches.read(self._repository(repository_id), branch_id).head

    def list_branches(
        self,
        repository_id: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        show_hidden: bool = False,
    ) -> Page[BranchHead]:
        """Branches in id order."""
        return self._parts.branches.page(
            self._repository(repository_id),
            prefix=prefix,
            after=after,
            amount=amount,
            show_hidden=show_hidden,
        )

    def delete_branch(self, repository_id: str, branch_id: str, *, force: bool = False) -> None:
        """Delete a branch and drop what is staged on it; `ForbiddenError` for the default branch."""
        self._parts.branches.delete(self._writable(repository_id, force=force), branch_id)

    def reset_branch(
        self,
        repository_id: str,
        branch_id: str,
        reset_type: ResetType,
        path: str = "",
        *,
        force: bool = False,
    ) -> None:
        """Throw away staged changes: all of them, of one object, or below a prefix."""
        repository = self._writable(repository_id, force=force)
        self._parts.resetting.reset(repository, branch_id, reset_type, path)

    def hard_reset(
        self, repository_id: str, branch_id: str, ref: str, *, force: bool = False
    ) -> None:
        """Make the branch point at another commit; the old head goes into the log of head moves."""
        repository = self._writable(repository_id, force=force)
        self._parts.resetting.hard_reset(repository, branch_id, ref)

    # -- tags

    def create_tag(self, repository_id: str, tag_id: str, ref: str, *, force: bool = False) -> Tag:
        """Name the commit that `ref` means; `ConflictError` (`tag-exists`)."""
        repository = self._writable(repository_id, force=force)
        commit_id = self._parts.refs.resolve(repository, ref).commit_id
        return self._parts.tags.create(repository, tag_id, commit_id)

    def get_tag(self, repository_id: str, tag_id: str) -> Tag:
        """The tag; `MissingError` (`tag-not-found`)."""
        return self._parts.tags.get(self._repository(repository_id), tag_id)

    def list_tags(
        self, repository_id: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[Tag]:
        """Tags in id order."""
        return self._parts.tags.page(
            self._repository(repository_id), prefix=prefix, after=after, amount=amount
        )

    def delete_tag(self, repository_id: str, tag_id: str, *, force: bool = False) -> None:
        """Delete a tag; `MissingError` without it."""
        self._parts.tags.delete(self._writable(repository_id, force=force), tag_id)

    # -- commits

    def resolve_ref(self, repository_id: str, ref: str) -> ResolvedRef:
        """What a ref expression means: `main`, `v1`, a commit id or its unique prefix, with `~N`, `^N`, `@`."""
        return self._parts.refs.resolve(self._repository(repository_id), ref)

    def get_commit(self, repository_id: str, ref: str) -> Commit:
        """The commit that a ref expression means."""
        repository = self._repository(repository_id)
        return self._parts.commits.get(
            repository, self._parts.refs.resolve(repository, ref).commit_id
        )

    def log(
        self,
        repository_id: str,
        ref: str,
        *,
        after: str = "",
        amount: int = 100,
        objects: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
        first_parent: bool = False,
        since: datetime | None = None,
        stop_at: str = "",
    ) -> Page[Commit]:
        """Commits that `ref` reaches, newest first (ties: larger id first).

        `objects` and `prefixes` keep only commits that changed one of them. `stop_at` ends the log with that commit
        (included); `limit` makes `amount` the end of the log instead of a page.
        """
        return self._parts.log.page(
            self._repository(repository_id),
            ref,
            after=after,
            amount=amount,
            objects=objects,
            prefixes=prefixes,
            limit=limit,
            first_parent=first_parent,
            since=since,
            stop_at=stop_at,
        )

    def commit(
        self,
        repository_id: str,
        branch_id: str,
        message: str,
        *,
        committer: str,
        metadata: Mapping[str, str] | None = None,
        date: datetime | None = None,
        allow_empty: bool = False,
        source_metarange: str = "",
        force: bool = False,
    ) -> Commit:
        """Commit what is staged; or, on a clean branch, a metarange that exists already.

        Raises:
            NoChangesError: nothing is staged and `allow_empty` is not set.
            DirtyBranchError: `source_metarange` is given and something is staged.
            TooManyTriesError: others kept moving the branch; what was staged is staged still.
        """
        repository = self._writable(repository_id, force=force)
        if source_metarange:
            return self._parts.committing.commit_metarange(
                repository,
                branch_id,
                message,
                MetaRangeId(source_metarange),
                committer=committer,
                metadata=metadata or {},
                date=date,
            )
        return self._parts.committing.commit(
            repository,
            branch_id,
            message,
            committer=committer,
            metadata=metadata or {},
            date=date,
            allow_empty=allow_empty,
        )

    def create_commit_record(
        self, repository_id: str, commit: Commit, *, force: bool = False
    ) -> None:
        """Store a commit record as it is; its id must be the one computed from its content."""
        self._parts.commits.create_record(self._writable(repository_id, force=force), commit)

    def revert(
        self,
        repository_id: str,
        branch_id: str,
        ref: str,
        *,
        committer: str,
        parent_number: int = 0,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        force: bool = False,
    ) -> Commit:
        """Commit the reverse of what `ref` changed against its parent (1-based; 0 when it has only one)."""
        return self._parts.reverting.revert(
            self._writable(repository_id, force=force),
            branch_id,
            ref,
            committer=committer,
            parent_number=parent_number,
            message=message,
            metadata=metadata,
            allow_empty=allow_empty,
        )

    def cherry_pick(
        self,
        repository_id: str,
        branch_id: str,
        ref: str,
        *,
        committer: str,
        parent_number: int | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Commit:
        """Commit on the branch what `ref` changed against its parent."""
        return self._parts.reverting.cherry_pick(
            self._writable(repository_id, force=force),
            branch_id,
            ref,
            committer=committer,
            parent_number=parent_number,
            message=message,
            metadata=metadata,
        )

    # -- diff and merge

    def diff_uncommitted(
        self,
        repository_id: str,
        branch_id: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[DiffEntry]:
        """What is staged on the branch, against its head."""
        return self._parts.diffing.diff_uncommitted(
            self._repository(repository_id),
            branch_id,
            prefix=prefix,
            after=after,
            amount=amount,
            delimiter=delimiter,
        )

    def diff_refs(
        self,
        repository_id: str,
        left_ref: str,
        right_ref: str,
        *,
        mode: DiffMode = "three_dot",
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[DiffEntry]:
        """What changes from left to right. `three_dot`: what merging right into left would bring, conflicts marked."""
        return self._parts.diffing.diff_refs(
            self._repository(repository_id),
            left_ref,
            right_ref,
            mode=mode,
            prefix=prefix,
            after=after,
            amount=amount,
            delimiter=delimiter,
        )

    def merge(
        self,
        repository_id: str,
        source_ref: str,
        destination_branch: str,
        *,
        committer: str,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy = "",
        allow_empty: bool = False,
        squash_merge: bool = False,
        force: bool = False,
    ) -> CommitId:
        """Merge a ref into a branch and give the merge commit's id.

        Raises:
            MergeConflictError: both changed one path in different ways, and there is no strategy.
            NoChangesError: the source brings nothing, and `allow_empty` and `force` are not set.
            DirtyBranchError: the destination has uncommitted changes.
        """
        return self._parts.merging.merge(
            self._writable(repository_id, force=force),
            source_ref,
            destination_branch,
            committer=committer,
            message=message,
            metadata=metadata or {},
            strategy=strategy,
            allow_empty=allow_empty or force,
            squash_merge=squash_merge,
        )

    def merge_base(self, repository_id: str, source_ref: str, destination_branch: str) -> MergeBase:
        """The commits a merge of the two would start from."""
        repository = self._repository(repository_id)
        return self._parts.merging.merge_base(repository, source_ref, destination_branch)
