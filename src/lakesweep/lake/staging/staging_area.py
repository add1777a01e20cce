"""Writing to a branch's staging area.

A writer reads the branch, writes to its staging token, and reads the branch again. If the token was sealed meanwhile, the
commit that sealed it may have passed the key already, so the write is done again on the new token. What a write is
computed from (the entry it copies, the entry that must be absent) is then computed again, too.

Rows that name addresses which exist already are written under the fence (see `hard_delete.fence`). A new object needs no
fence, but for a second try: what the first one wrote may have been thrown away with its token meanwhile, and deleted.
Where objects are deleted for good, what is written over is queued for review in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lakesweep.domain.commits import BranchHead
from lakesweep.lake.addresses.inside import staged_address
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import GoneError, MissingError, PreconditionFailedError
from lakesweep.lake.hard_delete.fence import Fence
from lakesweep.lake.hard_delete.queue import Dropped, Queue
from lakesweep.lake.kv.interface import Change, Held, Note, Row, unique
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, BranchRecord, sealed, too_many_tries
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.values import Repository

_FROM_FIRST_TRY, _FROM_SECOND_TRY, _NEVER = 0, 1, MAX_TRIES


@dataclass(eq=False, repr=False)
class Staging:
    """The staging areas of all branches."""

    _context: LakeContext
    _branches: Branches
    _entries: Entries
    _fence: Fence
    _queue: Queue

    def write(
        self,
        repository: Repository,
        branch_id: str,
        row: Row,
        *,
        if_absent: bool = False,
        held: Held | None = None,
    ) -> None:
        """Stage the entry of a new object; with `if_absent` only where the branch has none, and of several that race one wins.

        Args:
            held: the record that protects the entry's object. Without it a collection may have taken the object.

        Raises:
            PreconditionFailedError: `if_absent`, and the path exists.
            MissingError: `held`, and the record is gone or was changed (`upload-not-found`).
        """
        if held is not None:
            # The record keeps the object from being deleted, also between two tries.
            self._write(repository, branch_id, lambda _: [row], _NEVER, if_absent, held)
        else:
            self._write_new(repository, branch_id, [row], if_absent)

    def write_many(self, repository: Repository, branch_id: str, rows: list[Row]) -> None:
        """Stage the entries of several new objects, all or none."""
        self._write_new(repository, branch_id, rows)

    def write_tombstones(
        self, repository: Repository, branch_id: str, compute: Callable[[BranchHead], list[Row]]
    ) -> None:
        """Stage deletions that follow from the branch as it is."""
        self._write(repository, branch_id, compute, _NEVER)

    def write_references(
        self,
        repository: Repository,
        branch_id: str,
        compute: Callable[[BranchHead], list[Row]],
        *,
        if_absent: bool = False,
    ) -> None:
        """Stage rows of addresses that exist already, which follow from the branch as it is.

        Raises:
            CondemnedError: an address is being deleted for good.
        """
        self._write(repository, branch_id, compute, _FROM_FIRST_TRY, if_absent)

    def change(
        self, repository: Repository, branch_id: str, key: bytes, make: Callable[[bytes], bytes]
    ) -> bytes | None:
        """Stage what `make` makes of the entry at a path, for the same address; None where there is no entry.

        It is made anew when somebody staged another entry meanwhile: theirs is not to be written over by what was made of
        the one before.

        Raises:
            CondemnedError: the address is being deleted for good.
        """
        for _ in range(MAX_TRIES):
            fence = self._fence.read(repository)
            record = self._branches.read(repository, branch_id)
            token = record.head.staging_token
            present = self._context.kv.get(token, key)
            seen = self._entries.find_on_branch(repository, record.head, key)
            if seen is None:
                return None
            value = make(seen)
            address = staged_address(self._context, repository, value)
            self._fence.refuse_condemned(
                repository, fence, [address] if address else [], "nothing was staged"
            )
            # What `make` tracked was still there after that.
            if self._entries.find_on_branch(repository, record.head, key) != seen:
                continue
            change = Change(token, key, value, present)
            if self._context.kv.change_all([change], [fence.held]) and self._is_unchanged(
                repository, record
            ):
                return value
        raise too_many_tries(repository, branch_id, "what was to be staged may not be visible")

    def _write_new(
        self, repository: Repository, branch_id: str, rows: list[Row], if_absent: bool = False
    ) -> None:
        tries = 0

        def compute(_head: BranchHead) -> list[Row]:
            nonlocal tries
            tries += 1
            if tries > 1:
                self._assert_stored(repository, branch_id, rows)
            return rows

        self._write(repository, branch_id, compute, _FROM_SECOND_TRY, if_absent)

    def _write(
        self,
        repository: Repository,
        branch_id: str,
        compute: Callable[[BranchHead], list[Row]],
        fenced_from: int,
        if_absent: bool = False,
        held: Held | None = None,
    ) -> None:
        """Stage rows that follow from the branch as it is; they are computed again when the branch changed meanwhile."""
        for number in range(MAX_TRIES):
            conditions = [] if held is None else [held]
            # Read before anything that the rows follow from.
            fence = self._fence.read(repository) if number >= fenced_from else None
            record = self._branches.read(repository, branch_id)
            rows = compute(record.head)
            if held is not None and self._context.kv.get(held[0], held[1]) != held[2]:
                raise MissingError(
                    f"the time of an upload to branch {branch_id!r} of {repository.id} was over, or another request"
                    " took it over, before its entry was staged; nothing was staged",
                    kind="upload-not-found",
                )
            addresses: dict[bytes, str] = {}
            if fence is not None:
                addresses = self._addresses(repository, rows)
                self._fence.refuse_condemned(
                    repository, fence, addresses.values(), "nothing was staged"
                )
                conditions.append(fence.held)
            if if_absent:
                if all(self._write_absent(repository, record, row, conditions) for row in rows):
                    return
                continue
            if conditions or self._context.hard_deletes(repository):
                is_written = self._write_noting(repository, record, rows, conditions, addresses)
            else:
                is_written = self._write_over(record, rows)
            if is_written and self._is_unchanged(repository, record):
                return
            # The token was sealed under us: the commit may have ours, or not.
        raise too_many_tries(repository, branch_id, "what was to be staged may not be visible")

    def assert_absent(self, repository: Repository, branch_id: str, key: bytes) -> None:
        """Raise `PreconditionFailedError` when the path exists: a first look, before bytes are moved."""
        head = self._branches.read(repository, branch_id).head
        if self._entries.find_on_branch(repository, head, key) is not None:
            raise _exists(repository, branch_id, key)

    def remove(
        self,
        repository: Repository,
        branch_id: str,
        key: bytes,
        may_remove: Callable[[BranchHead], bool],
    ) -> bool:
        """Take a staged value away altogether; False when the branch, as it is, says that it may not be.

        It is taken while the branch is as it was read: out of a sealed token it could be missing here, and yet be in the
        commit that read it before.
        """
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            if not may_remove(record.head):
                return False
            held = [self._branches.held(repository, record)]
            is_removed = self._write_noting(repository, record, [(key, None)], held)
            if is_removed and self._is_unchanged(repository, record):
                return True
        raise too_many_tries(repository, branch_id, f"{key.decode()!r} may still be staged")

    def take_away(self, repository: Repository, record: BranchRecord, rows: Sequence[Row]) -> bool:
        """Take these very values out of the staging token, and queue what they name; False when the branch or one of them
        is not as it was read."""
        token, note = record.head.staging_token, self._note(repository, record.head.id)
        changes = [Change(token, key, None, value) for key, value in rows]
        noted = [note(key, value) for key, value in rows]
        changes += unique(change for change in noted if change is not None)
        return self._context.kv.change_all(changes, [self._branches.held(repository, record)])

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

    def _write_noting(
        self,
        repository: Repository,
        record: BranchRecord,
        rows: Sequence[tuple[bytes, bytes | None]],
        conditions: Sequence[Held],
        kept_addresses: Mapping[bytes, str] = MappingProxyType({}),
    ) -> bool:
        """Write the rows (None: take the key away) while the conditions hold, and queue what they write over.

        Args:
            kept_addresses: addresses of rows that may be at their path already.
        """
        note = self._note(repository, record.head.id, kept_addresses)
        return self._context.kv.write_over(record.head.staging_token, rows, note, conditions)

    def _write_absent(
        self,
        repository: Repository,
        record: BranchRecord,
        row: Row,
        conditions: Sequence[Held],
    ) -> bool:
        """Write the row where nothing is seen, while the branch is as it was read; False where it, or the path, is not.

        A second look would not do: whoever saw the row may have written over it by then, and it would pass for theirs.
        """
        key, value = row
        token = record.head.staging_token
        present = self._context.kv.get(token, key)
        seen = self._entries.find_on_branch(repository, record.head, key)
        if seen is not None:
            raise _exists(repository, record.head.id, key)
        # Nothing is written over but a tombstone.
        held = [*conditions, self._branches.held(repository, record)]
        return self._context.kv.change_all([Change(token, key, value, present)], held)

    def _note(
        self,
        repository: Repository,
        branch_id: str,
        kept_addresses: Mapping[bytes, str] = MappingProxyType({}),
    ) -> Note:
        """Records for the review of what is written over; not of an entry whose address stays at its path."""
        if not self._context.hard_deletes(repository):
            return lambda _key, _value: None
        now = self._context.now()

        def note(key: bytes, value: bytes) -> Change | None:
            if not value:
                return None
            stays = kept_addresses.get(key)
            if stays and stays == staged_address(self._context, repository, value):
                return None
            path = key.decode(errors="replace")
            return self._queue.note(repository, Dropped("", branch_id, path, now, value))

        return note

    def _assert_stored(self, repository: Repository, branch_id: str, rows: list[Row]) -> None:
        """Refuse to stage again an object whose first entry was thrown away, and the object deleted."""
        if not self._fence.read(repository).state.has_condemned:
            return
        store = self._context.store(repository)
        for address in self._addresses(repository, rows).values():
            if store.find(address) is None:
                raise GoneError(
                    f"an upload to branch {branch_id!r} of {repository.id} was thrown away by a reset and deleted"
                    " before it was done; nothing is staged. Upload it again."
                )

    def _addresses(self, repository: Repository, rows: list[Row]) -> dict[bytes, str]:
        """The addresses in the namespace that the rows have, by path."""
        found = {key: staged_address(self._context, repository, value) for key, value in rows}
        return {key: address for key, address in found.items() if address}

    def _is_unchanged(self, repository: Repository, record: BranchRecord) -> bool:
        return self._branches.read(repository, record.head.id).raw == record.raw


def _exists(repository: Repository, branch_id: str, key: bytes) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"{key.decode()!r} exists on branch {branch_id!r} of {repository.id}; nothing was staged"
    )
