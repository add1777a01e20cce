"""Throwing staged changes away, and moving a branch to another commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from lakesweep.domain.commits import BranchHead
from lakesweep.lake.commits.committing import is_change
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import DirtyBranchError, InvalidRequestError, MissingError
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.names import path_key, prefix_key
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import (
    MAX_TRIES,
    Branches,
    BranchRecord,
    new_staging_token,
    too_many_tries,
)
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.refs.head_moves import HeadMoves
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.staged_values import TOMBSTONE
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import Repository, ResetType

_BATCH_ROWS = 5_000


@dataclass(eq=False, repr=False)
class Resetting:
    """Resets of staging areas and of heads."""

    _context: LakeContext
    _refs: Refs
    _branches: Branches
    _entries: Entries
    _staging: Staging
    _head_moves: HeadMoves
    _dropped_tokens: DroppedTokens
    _copies: TrackedCopies
    _revivals: Revivals

    def reset(
        self, repository: Repository, branch_id: str, reset_type: ResetType, path: str = ""
    ) -> None:
        """Throw staged changes away."""
        if reset_type == "reset":
            self._reset_all(repository, branch_id)
        elif reset_type == "object":
            self._reset_object(repository, branch_id, path_key(path))
        elif reset_type == "common_prefix":
            self._reset_prefix(repository, branch_id, prefix_key(path))
        else:
            raise InvalidRequestError(
                f"{reset_type!r} is not a kind of reset; nothing was reset", kind="invalid-reset"
            )

    def hard_reset(self, repository: Repository, branch_id: str, ref: str) -> None:
        """Move the head. The head that is left stands in the log before it is left."""
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            if any(self._context.kv.page(token, limit=1) for token in record.head.sealed_tokens):
                raise DirtyBranchError(
                    f"branch {branch_id!r} of {repository.id} has a commit under way or left half-way;"
                    " commit or reset it first. The branch was not moved."
                )
            self._refs.resolve(repository, ref)  # else all would be let go of for nothing
            if not self._let_go_of_what_is_no_change(repository, record):
                continue
            # Read after that, which may take longer than the reviews that change it.
            fence = self._revivals.fence(repository)
            commit_id = self._refs.resolve_to_point_at(repository, ref)
            self._revivals.refuse_commit(repository, fence, commit_id, "the branch was not moved")
            self._head_moves.record(
                repository, branch_id, record.head.commit_id, self._context.now()
            )
            head = replace(record.head, commit_id=commit_id)
            if self._branches.replace(repository, record, head, fence.held) is not None:
                return
        raise too_many_tries(repository, branch_id, "the branch was not moved")

    def _let_go_of_what_is_no_change(self, repository: Repository, record: BranchRecord) -> bool:
        """Take away what is staged as the head has it: over another head it would hide that one's content, and undo it in
        the next commit. False when the branch, or something staged there, is not as it was read."""
        staged = self._entries.iterate_staged([record.head.staging_token])
        same = (
            (key, value)
            for key, value in staged
            if not is_change(self._entries.find_committed(repository, record.head, key), value)
        )
        while rows := list(islice(same, _BATCH_ROWS)):
            if not self._staging.take_away(repository, record, rows):
                return False
        return True

    def _reset_all(self, repository: Repository, branch_id: str) -> None:
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            self._dropped_tokens.note(repository, branch_id, record.tokens, self._context.now())
            head = replace(
                record.head,
                staging_token=new_staging_token(repository, branch_id),
                sealed_tokens=(),
            )
            if self._branches.replace(repository, record, head) is not None:
                return
        raise too_many_tries(repository, branch_id, "nothing was reset")

    def _reset_object(self, repository: Repository, branch_id: str, key: bytes) -> None:
        if self._entries.find_staged(self._branches.read(repository, branch_id).head, key) is None:
            raise MissingError(
                f"{key.decode()!r} is not staged on branch {branch_id!r} of {repository.id}",
                kind="entry-not-found",
            )
        self._staging.write_references(
            repository, branch_id, lambda head: self._committed_rows(repository, head, [key])
        )

    def _reset_prefix(self, repository: Repository, branch_id: str, prefix: bytes) -> None:
        """Seal, then stage for each path that was staged what the head has there."""
        record = self._staging.seal(repository, branch_id)
        staged = self._entries.iterate_staged(record.head.sealed_tokens, prefix=prefix)
        for keys in _batches(staged):

            def committed_rows(head: BranchHead, keys: list[bytes] = keys) -> list[Row]:
                return self._committed_rows(repository, head, keys)

            self._staging.write_references(repository, branch_id, committed_rows)

    def _committed_rows(
        self, repository: Repository, head: BranchHead, keys: list[bytes]
    ) -> list[Row]:
        found = (self._entries.find_committed(repository, head, key) for key in keys)
        # The committed addresses become staged ones, too. Tracked before they are staged, as copies are: else a
        # collection that has passed the staging area, and reads the commits when the head has moved on, sees neither.
        # Should the head move now, the caller sees it and computes these rows again.
        values = [TOMBSTONE if value is None else value for value in found]
        self._copies.track(repository, [value for value in values if value != TOMBSTONE])
        return list(zip(keys, values, strict=True))


def _batches(rows: Iterator[Row]) -> Iterator[list[bytes]]:
    keys: list[bytes] = []
    for key, _ in rows:
        keys.append(key)
        if len(keys) == _BATCH_ROWS:
            yield keys
            keys = []
    if keys:
        yield keys
