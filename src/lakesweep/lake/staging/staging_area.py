"""Writing to a branch's staging area.

A writer reads the branch, writes to its staging token, and reads the branch again. If the token was sealed meanwhile, the
commit that sealed it may have passed the key already, so the write is done again on the new token. What a write is
computed from (the entry it copies, the entry that must be absent) is then computed again, too.
"""

from __future__ import annotations

from collections.abc import Callable

from lakesweep.domain.commits import BranchHead
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import MissingError, PreconditionFailedError
from lakesweep.lake.kv.interface import Held, Row
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, BranchRecord, sealed, too_many_tries
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.values import Repository


class Staging:
    """The staging areas of all branches."""

    def __init__(self, context: LakeContext, branches: Branches, entries: Entries) -> None:
        self._context = context
        self._branches = branches
        self._entries = entries

    def write(
        self,
        repository: Repository,
        branch_id: str,
        row: Row,
        *,
        if_absent: bool = False,
        held: Held | None = None,
    ) -> None:
        """Stage one value; with `if_absent` only where the branch has none, and of several that race one wins.

        Args:
            held: the record that protects the entry's object. Without it a collection may have taken the object.

        Raises:
            PreconditionFailedError: `if_absent`, and the path exists.
            MissingError: `held`, and the record is gone or was changed (`upload-not-found`).
        """
        self.write_computed(repository, branch_id, lambda _: [row], if_absent=if_absent, held=held)

    def write_many(self, repository: Repository, branch_id: str, rows: list[Row]) -> None:
        """Stage several values, all or none."""
        self.write_computed(repository, branch_id, lambda _: rows)

    def write_computed(
        self,
        repository: Repository,
        branch_id: str,
        compute: Callable[[BranchHead], list[Row]],
        *,
        if_absent: bool = False,
        held: Held | None = None,
    ) -> None:
        """Stage rows that follow from the branch as it is; they are computed again when the branch changed meanwhile."""
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            rows = compute(record.head)
            if held is not None and self._context.kv.get(held[0], held[1]) != held[2]:
                raise MissingError(
                    f"the time of an upload to branch {branch_id!r} of {repository.id} was over, or another request"
                    " took it over, before its entry was staged; nothing was staged",
                    kind="upload-not-found",
                )
            if if_absent:
                is_written = all(self._write_absent(repository, record, row, held) for row in rows)
            elif held is not None:
                is_written = all(self._write_held(record, row, held) for row in rows)
            else:
                is_written = self._write_over(record, rows)
            if is_written and self._is_unchanged(repository, record):
                return
            if if_absent and is_written:
                # The token was sealed under us. Take the values back, unless the commit has them, and try once more.
                for key, value in rows:
                    self._context.kv.delete_if(record.head.staging_token, key, value)
        raise too_many_tries(repository, branch_id, "what was to be staged may not be visible")

    def assert_absent(self, repository: Repository, branch_id: str, key: bytes) -> None:
        """Raise `PreconditionFailedError` when the path exists: a first look, before bytes are moved."""
        head = self._branches.read(repository, branch_id).head
        if self._entries.find_on_branch(repository, head, key) is not None:
            raise _exists(repository, branch_id, key)

    def remove(self, repository: Repository, branch_id: str, key: bytes) -> None:
        """Take a staged value away altogether, where neither the commit nor a sealed token has the path."""
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            self._context.kv.delete(record.head.staging_token, key)
            if self._is_unchanged(repository, record):
                return
        raise too_many_tries(repository, branch_id, f"{key.decode()!r} may still be staged")

    def seal(self, repository: Repository, branch_id: str) -> BranchRecord:
        """Close the staging token for writers and open a new one; the branch as it is then.

        An empty token is left open: sealing it would only make the branch's record longer.
        """
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            if not self._context.kv.page(record.head.staging_token, limit=1):
                return record
            done = self._branches.replace(repository, record, sealed(repository, record.head))
            if done is not None:
                return done
        raise too_many_tries(repository, branch_id, "nothing was done")

    def is_empty(self, record: BranchRecord) -> bool:
        """Whether no token of the branch holds anything, tombstones included."""
        return not any(self._context.kv.page(token, limit=1) for token in record.tokens)

    def _write_over(self, record: BranchRecord, rows: list[Row]) -> bool:
        if len(rows) == 1:
            self._context.kv.set(record.head.staging_token, *rows[0])
        elif rows:
            self._context.kv.set_many(record.head.staging_token, rows)
        return True

    def _write_held(self, record: BranchRecord, row: Row, held: Held) -> bool:
        key, value = row
        token = record.head.staging_token
        present = self._context.kv.get(token, key)
        return present == value or self._context.kv.set_if(token, key, value, present, held)

    def _write_absent(
        self, repository: Repository, record: BranchRecord, row: Row, held: Held | None
    ) -> bool:
        key, value = row
        token = record.head.staging_token
        present = self._context.kv.get(token, key)
        seen = self._entries.find_on_branch(repository, record.head, key)
        if seen == value:
            # Our own: a commit took it out of the token that we wrote it to before.
            return True
        if seen is not None:
            raise _exists(repository, record.head.id, key)
        return self._context.kv.set_if(token, key, value, present, held)

    def _is_unchanged(self, repository: Repository, record: BranchRecord) -> bool:
        return self._branches.read(repository, record.head.id).raw == record.raw


def _exists(repository: Repository, branch_id: str, key: bytes) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"{key.decode()!r} exists on branch {branch_id!r} of {repository.id}; nothing was staged"
    )
