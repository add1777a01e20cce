"""Commit records in the ref store.

A commit is stored before anything points at it, and a request that others outran leaves one that nothing ever will. Its
maker takes it away again, by compare-and-delete of the very bytes it wrote. So a record that somebody else relies on is
*held* first: its maker's name is taken out of it. Only a server that dies between the two leaves a record behind.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from lakesweep.domain.commits import Commit, CommitId, MetaRangeId
from lakesweep.formats.identity import commit_id as compute_commit_id
from lakesweep.lake.caches import SizedCache
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import CondemnedError, InvalidRequestError, MissingError
from lakesweep.lake.hard_delete.fence import Fence, FenceMovedError, FoundFence
from lakesweep.lake.kv.interface import Change, Held
from lakesweep.lake.records import (
    cut_page,
    decode_record,
    encode_record,
    fields_of,
    from_micros,
    page_size,
)
from lakesweep.lake.values import Page, Repository

_PREFIX = b"commits/"
_SCAN_ROWS = 10_000
_HEX = re.compile(r"[0-9a-f]+")
_FULL_ID_LENGTH = 64
_CACHED_COMMITS = 20_000


class Commits:
    """All commits of all repositories. A commit never changes, so it is written once and read by anyone."""

    def __init__(self, context: LakeContext, fence: Fence) -> None:
        self._context = context
        self._fence = fence
        self._cache: SizedCache[Commit] = SizedCache(_CACHED_COMMITS)
        self._maker = uuid.uuid4().hex

    def get(self, repository: Repository, commit_id: CommitId) -> Commit:
        """The commit; `MissingError` (`commit-not-found`)."""

        def read() -> tuple[Commit, int]:
            found = self._context.kv.get(partition_of(repository), _key(commit_id))
            if found is None:
                raise _missing(repository, commit_id)
            return _decode(found), 1

        return self._cache.get((partition_of(repository), commit_id), read)

    def put(self, repository: Repository, commit: Commit) -> None:
        """Write the record for good. Its id names its content, so whoever wrote it before wrote the same."""
        record = Change(partition_of(repository), _key(commit.id), _encode(commit))
        while True:
            fence = self._fence.read(repository)
            self.refuse_unknown(repository, fence, commit.meta_range_id)
            if self._context.kv.change_all([record], [fence.held]):
                return

    def refuse_unknown(
        self, repository: Repository, fence: FoundFence, metarange_id: MetaRangeId
    ) -> None:
        """Raise `CondemnedError` when no commit has the metarange, in a repository where reviews have deleted objects.

        A metarange alone keeps nothing: what it names may have been taken for dropped, and be gone.
        """
        if not fence.state.has_condemned or not metarange_id:
            return
        if all(commit.meta_range_id != metarange_id for commit in self.all(repository)):
            raise CondemnedError(
                f"no commit of repository {repository.id} has the metarange {metarange_id}, and objects that no commit"
                " has are deleted for good here; nothing was committed. Stage the objects and commit them.",
                kind="unknown-metarange",
            )

    def hold(self, repository: Repository, commit_id: CommitId) -> None:
        """See to it that the record stays, before a ref or another commit names it; `MissingError` when it is gone."""
        partition, key = partition_of(repository), _key(commit_id)
        while True:
            raw = self._context.kv.get(partition, key)
            if raw is None:
                raise _missing(repository, commit_id)
            held = _encode(_decode(raw))
            if raw == held or self._context.kv.set_if(partition, key, held, raw):
                return

    def remove_lost(self, repository: Repository, commit: Commit) -> None:
        """Remove a commit that this process made and nothing points at; one that somebody holds stays."""
        raw = _encode(commit, self._maker)
        self._context.kv.delete_if(partition_of(repository), _key(commit.id), raw)

    def make(
        self,
        repository: Repository,
        *,
        committer: str,
        message: str,
        meta_range_id: MetaRangeId,
        creation_date: datetime,
        parents: Sequence[Commit],
        metadata: Mapping[str, str],
        held: Held | None = None,
    ) -> Commit:
        """A new commit, stored; nothing points at it yet. All parents but the main one, a branch's head, are held.

        Raises:
            FenceMovedError: what is `held` has another value; the commit was not stored.
        """
        for parent in parents[1:]:
            self.hold(repository, parent.id)
        parent_ids = tuple(parent.id for parent in parents)
        commit = Commit(
            id=compute_commit_id(
                committer=committer,
                message=message,
                meta_range_id=meta_range_id,
                creation_date=creation_date,
                metadata=metadata,
                parents=parent_ids,
            ),
            committer=committer,
            message=message,
            creation_date=creation_date,
            meta_range_id=meta_range_id,
            parents=parent_ids,
            metadata=dict(metadata),
            generation=max((parent.generation for parent in parents), default=0) + 1,
        )
        raw, kv = _encode(commit, self._maker), self._context.kv
        while not kv.set_if(partition_of(repository), _key(commit.id), raw, None, held):
            if held is not None and kv.get(held[0], held[1]) != held[2]:
                raise FenceMovedError
            # Somebody made the very same commit. Both rely on the record, so neither may remove it.
            with suppress(MissingError):
                self.hold(repository, commit.id)
                break
        return commit

    def all(self, repository: Repository) -> Iterator[Commit]:
        """Every commit, dangling ones included, in id order."""
        rows = self._context.rows(repository, _PREFIX, page_rows=_SCAN_ROWS)
        return (_decode(value) for _, value in rows)

    def all_with_maker(self, repository: Repository) -> Iterator[tuple[Commit, str]]:
        """Every commit with the name of the process that may yet remove it; empty for one that stays."""
        rows = self._context.rows(repository, _PREFIX, page_rows=_SCAN_ROWS)
        return ((_decode(value), decode_record(value).get("maker", "")) for _, value in rows)

    def page(self, repository: Repository, *, after: str = "", amount: int = 1000) -> Page[Commit]:
        """Commits in id order, dangling ones included; the offset is the commit's id."""
        last = _key(CommitId(after)) if after else None
        rows = self._context.rows(repository, _PREFIX, after=last)
        commits = (_decode(value) for _, value in rows)
        return cut_page(((commit.id, commit) for commit in commits), page_size(amount))

    def find_by_prefix(self, repository: Repository, id_prefix: str) -> CommitId | None:
        """The one commit whose id starts so; None when there is none or more than one."""
        if not _HEX.fullmatch(id_prefix) or len(id_prefix) > _FULL_ID_LENGTH:
            return None
        rows = self._context.kv.page(
            partition_of(repository), prefix=_key(CommitId(id_prefix)), limit=2
        )
        return _decode(rows[0][1]).id if len(rows) == 1 else None

    def create_record(self, repository: Repository, commit: Commit) -> None:
        """Store a commit made elsewhere, when its id is the one its content has."""
        computed = compute_commit_id(
            committer=commit.committer,
            message=commit.message,
            meta_range_id=commit.meta_range_id,
            creation_date=commit.creation_date,
            metadata=commit.metadata,
            parents=commit.parents,
        )
        if computed != commit.id:
            raise InvalidRequestError(
                f"the commit's content has the id {computed}, not {commit.id}; it was not stored",
                kind="wrong-commit-id",
            )
        for parent in commit.parents:
            self.hold(repository, parent)
        self.put(repository, commit)


def _key(commit_id: CommitId) -> bytes:
    return _PREFIX + commit_id.encode()


def _missing(repository: Repository, commit_id: CommitId) -> MissingError:
    return MissingError(
        f"repository {repository.id} has no commit {commit_id}", kind="commit-not-found"
    )


def _encode(commit: Commit, maker: str = "") -> bytes:
    return encode_record(fields_of(commit) | ({"maker": maker} if maker else {}))


def _decode(data: bytes) -> Commit:
    fields = decode_record(data)
    return Commit(
        id=CommitId(fields["id"]),
        committer=fields["committer"],
        message=fields["message"],
        creation_date=from_micros(fields["creation_date"]),
        meta_range_id=MetaRangeId(fields["meta_range_id"]),
        parents=tuple(CommitId(parent) for parent in fields["parents"]),
        metadata=fields["metadata"],
        version=fields["version"],
        generation=fields["generation"],
    )
