"""Branch records: head, staging token, sealed tokens. Every change is a compare-and-set of the whole record."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from lakesweep.domain.commits import BranchHead, BranchId, CommitId
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import ConflictError, ForbiddenError, MissingError, TooManyTriesError
from lakesweep.lake.hard_delete.fence import FenceMovedError
from lakesweep.lake.kv.interface import Held
from lakesweep.lake.names import check_branch_id
from lakesweep.lake.records import cut_page, decode_record, encode_record, fields_of, page_size
from lakesweep.lake.refs.head_moves import HeadMoves
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.values import Page, Repository

BRANCH_PREFIX = b"branches/"
MAX_TRIES = 20
"""How often a change is tried again after another writer came first."""


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch as it was read, with the bytes that a later compare-and-set expects to find unchanged."""

    head: BranchHead
    raw: bytes

    @property
    def tokens(self) -> tuple[str, ...]:
        """Where its staged entries are, newest first."""
        return (self.head.staging_token, *self.head.sealed_tokens)


@dataclass(eq=False, repr=False)
class Branches:
    """The branches of all repositories."""

    _context: LakeContext
    _head_moves: HeadMoves
    _dropped_tokens: DroppedTokens

    def head(self, repository: Repository, branch_id: str) -> BranchHead:
        """The branch and the commit it points at; `MissingError` (`branch-not-found`)."""
        return self.read(repository, branch_id).head

    def read(self, repository: Repository, branch_id: str) -> BranchRecord:
        """The branch as it is now; `MissingError` (`branch-not-found`)."""
        found = self.find(repository, branch_id)
        if found is None:
            raise MissingError(
                f"repository {repository.id} has no branch {branch_id!r}", kind="branch-not-found"
            )
        return found

    def find(self, repository: Repository, branch_id: str) -> BranchRecord | None:
        """The branch as it is now, or None."""
        raw = self._context.kv.get(partition_of(repository), _key(branch_id))
        return None if raw is None else BranchRecord(decode_branch(raw), raw)

    def held(self, repository: Repository, record: BranchRecord) -> Held:
        """The condition that the branch is as it was read."""
        return partition_of(repository), _key(record.head.id), record.raw

    def replace(
        self,
        repository: Repository,
        record: BranchRecord,
        head: BranchHead,
        held: Held | None = None,
    ) -> BranchRecord | None:
        """Write `head` in place of the record; None when somebody changed it, or what is `held`, meanwhile."""
        raw, key = encode_branch(head), _key(head.id)
        done = self._context.kv.set_if(partition_of(repository), key, raw, record.raw, held)
        return BranchRecord(head, raw) if done else None

    def create(
        self,
        repository: Repository,
        branch_id: str,
        commit_id: CommitId,
        *,
        is_hidden: bool = False,
        held: Held | None = None,
    ) -> BranchHead:
        """A new branch at a commit, with an empty staging area.

        Raises:
            ConflictError: there is one of that name (`branch-exists`).
            FenceMovedError: what is `held` has another value.
        """
        check_branch_id(branch_id)
        head = BranchHead(
            BranchId(branch_id),
            commit_id,
            staging_token=new_staging_token(repository, branch_id),
            hidden=is_hidden,
        )
        created = self._context.kv.set_if(
            partition_of(repository), _key(branch_id), encode_branch(head), None, held
        )
        if not created and self.find(repository, branch_id) is None:
            raise FenceMovedError
        if not created:
            raise ConflictError(
                f"repository {repository.id} has a branch {branch_id!r} already",
                kind="branch-exists",
            )
        return head

    def delete(self, repository: Repository, branch_id: str) -> None:
        """Delete the branch; its head is noted as one that was, and its staging tokens are let go."""
        if (
            self._context.settings.is_default_branch_protected
            and branch_id == repository.default_branch
        ):
            raise ForbiddenError(
                f"{branch_id!r} is the default branch of {repository.id}; it was not deleted",
                kind="default-branch",
            )
        for _ in range(MAX_TRIES):
            record = self.read(repository, branch_id)
            now = self._context.now()
            self._head_moves.record(repository, branch_id, record.head.commit_id, now)
            self._dropped_tokens.note(repository, branch_id, record.tokens, now)
            if self._context.kv.delete_if(partition_of(repository), _key(branch_id), record.raw):
                return
        raise too_many_tries(repository, branch_id, "it was not deleted")

    def all(self, repository: Repository, *, after: str | None = None) -> Iterator[BranchRecord]:
        """Every branch, hidden ones too, in id order."""
        last = None if after is None else _key(after)
        rows = self._context.rows(repository, BRANCH_PREFIX, after=last)
        return (BranchRecord(decode_branch(raw), raw) for _, raw in rows)

    def page(
        self,
        repository: Repository,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        show_hidden: bool = False,
    ) -> Page[BranchHead]:
        """Branches in id order."""
        last = _key(after) if after else None
        rows = self._context.rows(repository, _key(prefix), after=last)
        heads = (decode_branch(raw) for _, raw in rows)
        shown = ((head.id, head) for head in heads if show_hidden or not head.hidden)
        return cut_page(shown, page_size(amount))


def sealed(repository: Repository, head: BranchHead) -> BranchHead:
    """The branch with its staging token closed for writers and a new one in its place."""
    return replace(
        head,
        staging_token=new_staging_token(repository, head.id),
        sealed_tokens=(head.staging_token, *head.sealed_tokens),
    )


def new_staging_token(repository: Repository, branch_id: str) -> str:
    """A token nobody has used before."""
    return f"{repository.id}-{branch_id}:{uuid.uuid4()}"


def too_many_tries(repository: Repository, branch_id: str, not_done: str) -> TooManyTriesError:
    """The error for a branch that others kept changing."""
    return TooManyTriesError(
        f"others kept changing {branch_id!r} of {repository.id}; {not_done}; try again"
    )


def encode_branch(head: BranchHead) -> bytes:
    """The branch's record."""
    return encode_record(fields_of(head))


# Every request reads its branch's record, and most find it unchanged.
@lru_cache(maxsize=4096)
def decode_branch(raw: bytes) -> BranchHead:
    """The branch in a record."""
    fields = decode_record(raw)
    return BranchHead(
        id=BranchId(fields["id"]),
        commit_id=CommitId(fields["commit_id"]),
        staging_token=fields["staging_token"],
        sealed_tokens=tuple(fields["sealed_tokens"]),
        hidden=fields["hidden"],
    )


def _key(branch_id: str) -> bytes:
    return BRANCH_PREFIX + branch_id.encode(errors="surrogatepass")
