"""Addresses that gained a second entry, tracked for as long as a collection may run.

A collection reads staged entries path by path. A copy and the deletion of its source (a rename) could slip past it: the
copy lands where the collection has been, the source goes before it gets there. So the address is written here *first*,
then the source is read again, then the entry is staged; and a collection reads these records after all staged entries.
If the source was still there when read again, the record is older than the source's end, and the collection sees one or
the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from lakesweep.formats.xid import new_xid, xid_time
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.values import Repository

# Keys end in an xid, which begins with its time: they sort by age.
_PREFIX = b"copies/"
_MOST_REMOVED = 2_000
# Ages are told by the part of an xid that changes every four seconds.
_STEP_SECONDS = 4


class TrackedCopies:
    """The tracked copies of all repositories. A record's value is the staged value that was copied."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def track(self, repository: Repository, values: Sequence[bytes]) -> None:
        """Note that each value's address is about to be staged once more."""
        now = self._context.now()
        rows = [(_PREFIX + new_xid(now).encode(), value) for value in values]
        if len(rows) == 1:
            self._context.kv.set(partition_of(repository), *rows[0])
        elif rows:
            self._context.kv.set_many(partition_of(repository), rows)

    def page(self, repository: Repository, *, after: bytes | None, limit: int) -> list[Row]:
        """Records after a key, oldest first: their keys and the values that were copied."""
        return self._context.kv.page(
            partition_of(repository), prefix=_PREFIX, after=after, limit=limit
        )

    def all(self, repository: Repository) -> Iterator[Row]:
        """Every record, oldest first."""
        return self._context.rows(repository, _PREFIX)

    def end_of(self, key: bytes) -> datetime:
        """From when on `remove_old` forgets a record with this key."""
        made = xid_time(key.removeprefix(_PREFIX).decode())
        step = timedelta(seconds=_STEP_SECONDS - int(made.timestamp()) % _STEP_SECONDS)
        return made + step + self._context.settings.copy_life

    def remove_old(self, repository: Repository, now: datetime) -> None:
        """Forget copies older than `copy_life`: the oldest first, and in one round only so many."""
        oldest_kept = _PREFIX + _time_prefix(now - self._context.settings.copy_life)
        for key, _ in self.page(repository, after=None, limit=_MOST_REMOVED):
            if key >= oldest_kept:
                return
            self._context.kv.delete(partition_of(repository), key)


def _time_prefix(at: datetime) -> bytes:
    """The part of an xid that depends on its time alone: 30 of its 32 bits, six characters."""
    return new_xid(at)[:6].encode()
