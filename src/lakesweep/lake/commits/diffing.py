"""What differs: staged against head, one ref against another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from lakesweep.domain.commits import CommitId
from lakesweep.lake.commits.ancestry import merge_base
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.committing import is_change
from lakesweep.lake.commits.comparing import differences, three_way
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.names import prefix_key
from lakesweep.lake.objects.folding import fold
from lakesweep.lake.records import cut_page, page_size
from lakesweep.lake.refs.branches import Branches, BranchRecord
from lakesweep.lake.refs.expressions import RefExpression, Refs
from lakesweep.lake.staging.entries import Entries
from lakesweep.lake.staging.staged_values import TOMBSTONE, decode_staged
from lakesweep.lake.values import DiffEntry, DiffMode, DiffType, Page, Repository

_Rows = Iterator[tuple[bytes, DiffEntry]]


@dataclass(eq=False, repr=False)
class Diffing:
    """Diffs, paged and folded as listings are."""

    _refs: Refs
    _branches: Branches
    _commits: Commits
    _committed: Committed
    _entries: Entries

    def diff_uncommitted(
        self,
        repository: Repository,
        branch_id: str,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[DiffEntry]:
        """What is staged, against the head. A staged value with the identity of the committed one is no difference."""
        start = prefix_key(prefix)
        record = self._branches.read(repository, branch_id)
        rows_after = partial(self._uncommitted, repository, record, start)
        return _folded_page(rows_after, start, after, amount, delimiter)

    def diff_refs(
        self,
        repository: Repository,
        left_ref: str,
        right_ref: str,
        *,
        mode: DiffMode = "three_dot",
        prefix: str = "",
        after: str = "",
        amount: int = 100,
        delimiter: str = "",
    ) -> Page[DiffEntry]:
        """What changes from left to right; three-dot counts from their merge base and marks conflicts."""
        start = prefix_key(prefix)
        left = self._refs.resolve(repository, left_ref).commit_id
        right = self._refs.resolve(repository, right_ref)
        if RefExpression.parse(right_ref).is_staging_only and right.branch is not None:
            if left != right.commit_id:
                raise InvalidRequestError(
                    f"{right_ref!r} can only be compared with the head of its own branch",
                    kind="invalid-ref",
                )
            record = self._branches.read(repository, right.branch.id)
            rows_after = partial(self._uncommitted, repository, record, start)
        else:
            compare = self._two_dot if mode == "two_dot" else self._three_dot
            rows_after = partial(compare, repository, left, right.commit_id, start)
        return _folded_page(rows_after, start, after, amount, delimiter)

    def _uncommitted(
        self, repository: Repository, record: BranchRecord, prefix: bytes, after: bytes | None
    ) -> _Rows:
        for key, staged in self._entries.iterate_staged(record.tokens, prefix=prefix, after=after):
            committed = self._entries.find_committed(repository, record.head, key)
            if is_change(committed, staged):
                right = None if staged == TOMBSTONE else staged
                yield key, _entry(key, committed, right)

    def _two_dot(
        self,
        repository: Repository,
        left: CommitId,
        right: CommitId,
        prefix: bytes,
        after: bytes | None,
    ) -> _Rows:
        found = differences(
            self._committed,
            repository,
            self._committed.metarange_of(repository, left),
            self._committed.metarange_of(repository, right),
            _start(prefix, after),
        )
        for difference in found:
            if not difference.key.startswith(prefix):
                return
            yield difference.key, _entry(*difference)

    def _three_dot(
        self,
        repository: Repository,
        left: CommitId,
        right: CommitId,
        prefix: bytes,
        after: bytes | None,
    ) -> _Rows:
        found = three_way(
            self._committed,
            repository,
            base_id=merge_base(self._commits, repository, left, right).meta_range_id,
            source_id=self._committed.metarange_of(repository, right),
            destination_id=self._committed.metarange_of(repository, left),
            start=_start(prefix, after),
        )
        for change in found:
            if not change.key.startswith(prefix):
                return
            if change.is_conflict:
                yield change.key, _entry(change.key, change.base, change.source, "conflict")
            elif change.is_news:
                yield change.key, _entry(change.key, change.base, change.source)


def _start(prefix: bytes, after: bytes | None) -> bytes:
    return prefix if after is None else max(prefix, after + b"\x00")


def _entry(
    key: bytes, left: bytes | None, right: bytes | None, kind: DiffType | None = None
) -> DiffEntry:
    shown = right if right is not None else left
    size = 0 if shown is None else decode_staged(shown).size
    if kind is None:
        kind = "added" if left is None else "removed" if right is None else "changed"
    return DiffEntry(kind, key.decode(), size_bytes=size)


def _folded_page(
    rows_after: Callable[[bytes | None], _Rows],
    prefix: bytes,
    after: str,
    amount: int,
    delimiter: str,
) -> Page[DiffEntry]:
    folded = fold(
        rows_after,
        prefix=prefix,
        after=prefix_key(after) if after else None,
        delimiter=prefix_key(delimiter),
    )

    def items() -> Iterator[tuple[str, DiffEntry]]:
        for key, entry in folded:
            path = key.decode()
            yield path, entry or DiffEntry("prefix_changed", path, "common_prefix")

    return cut_page(items(), page_size(amount))
