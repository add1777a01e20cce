"""The log of heads that branches left behind.

A commit that supersedes a head names it as its main parent, and that is record enough. A deletion or a hard reset leaves
no such trace, so the head that was left is written here, with the time. The record is written *before* the move: a crash
between the two leaves a record too many, which only keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice

from lakesweep.domain.commits import BranchId, CommitId, HeadMove
from lakesweep.formats.xid import new_xid
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.records import (
    cut_page,
    decode_record,
    encode_record,
    from_micros,
    page_size,
    to_micros,
)
from lakesweep.lake.values import Page, Repository

_PREFIX = b"head-moves/"


class HeadMoves:
    """Who pointed where, and until when."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def record(
        self, repository: Repository, branch_id: str, commit_id: CommitId, until: datetime
    ) -> None:
        """Note that the branch is about to leave a commit."""
        key = _PREFIX + new_xid(until).encode()
        value = encode_record({"branch": branch_id, "commit": commit_id, "until": to_micros(until)})
        self._context.kv.set(partition_of(repository), key, value)

    def all(self, repository: Repository) -> Iterator[HeadMove]:
        """Every move, oldest first."""
        return (_decode(row) for row in self._rows(repository))

    def page(
        self, repository: Repository, *, after: str = "", amount: int = 1000
    ) -> Page[HeadMove]:
        """Moves oldest first; the offset is the record's own id."""
        rows = self._rows(repository, after=_PREFIX + after.encode() if after else None)
        return cut_page(
            ((row[0][len(_PREFIX) :].decode(), _decode(row)) for row in rows), page_size(amount)
        )

    def remove_some(
        self, repository: Repository, is_over: Callable[[HeadMove], bool], most: int
    ) -> None:
        """Forget the oldest moves that are over, in one round only so many."""
        for row in islice(self._rows(repository), most):
            if is_over(_decode(row)):
                self._context.kv.delete_if(partition_of(repository), *row)

    def _rows(self, repository: Repository, *, after: bytes | None = None) -> Iterator[Row]:
        return self._context.rows(repository, _PREFIX, after=after)


def _decode(row: Row) -> HeadMove:
    fields = decode_record(row[1])
    return HeadMove(
        BranchId(fields["branch"]), CommitId(fields["commit"]), from_micros(fields["until"])
    )
