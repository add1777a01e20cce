"""The ledger of online deletes: what was about to be deleted, and what became of it, kept for a while."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.formats.xid import new_xid
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.hard_delete.queue import Dropped
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.records import decode_record, encode_long_record, from_micros
from lakesweep.lake.values import Repository

# Keys end in an xid, which begins with its time: they sort by age.
LEDGER_PREFIX = b"hard-delete/ledger/"
_KEPT = timedelta(days=90)
_MOST_REMOVED = 1_000


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One object of one review: what it was, and its outcome ("deleting" until that is known)."""

    dropped: Dropped
    at: datetime
    outcome: str
    detail: str = ""


class DeleteLedger:
    """The ledgers of all repositories. One record tells of all objects of one review."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def begin(self, repository: Repository, going: Collection[Dropped], now: datetime) -> Change:
        """The record of what is about to be deleted, to be made before the first delete."""
        key = LEDGER_PREFIX + new_xid(now).encode()
        rows = [LedgerRow(dropped, now, "deleting") for dropped in going]
        return Change(partition_of(repository), key, _encode(rows))

    def end(self, told: Change, rows: list[LedgerRow]) -> Change:
        """The record that was begun, with the outcomes."""
        return told._replace(value=_encode(rows))

    def rows(
        self, repository: Repository, addresses: Collection[str] | None = None
    ) -> Iterator[LedgerRow]:
        """What was deleted, oldest first; only what concerns these addresses, where some are given."""
        for _, raw in self._context.rows(repository, LEDGER_PREFIX):
            for fields in decode_record(raw)["rows"]:
                if addresses is None or fields["address"] in addresses:
                    yield _row(fields)

    def remove_old(self, repository: Repository, now: datetime) -> None:
        """Forget what is long past, in one round only so much."""
        partition = partition_of(repository)
        for key, raw in self._context.kv.page(partition, prefix=LEDGER_PREFIX, limit=_MOST_REMOVED):
            rows = decode_record(raw)["rows"]
            if rows and from_micros(rows[0]["at"]) + _KEPT > now:
                return
            self._context.kv.delete_if(partition, key, raw)


def _encode(rows: list[LedgerRow]) -> bytes:
    return encode_long_record(
        {
            "rows": [
                # Without the staged value: users wait while a record of a thousand rows is written.
                {
                    "address": row.dropped.address,
                    "branch": row.dropped.branch_id,
                    "path": row.dropped.path,
                    "since": row.dropped.since,
                    "at": row.at,
                    "outcome": row.outcome,
                    "detail": row.detail,
                }
                for row in rows
            ]
        }
    )


def _row(fields: Mapping[str, str]) -> LedgerRow:
    since = from_micros(int(fields["since"]))
    dropped = Dropped(fields["address"], fields["branch"], fields["path"], since)
    return LedgerRow(dropped, from_micros(int(fields["at"])), fields["outcome"], fields["detail"])
