"""How much of what lies in the lake, counted at a bounded cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.lake.context import partition_of
from lakesweep.lake.kv.interface import KeyValueStore, Row, scan
from lakesweep.lake.lake import Lake

MOST_ROWS = 200_000
"""Rows that one count reads at most, of all kinds together."""


@dataclass(frozen=True, slots=True)
class LakeCounts:
    """Numbers of one moment. When `is_cut`, there was more than is counted."""

    repositories: int
    staged: int
    pending: int
    pending_oldest_seconds: float
    copies: int
    queued: int
    queued_oldest_seconds: float
    is_cut: bool


def count_lake(lake: Lake, most_rows: int = MOST_ROWS) -> LakeCounts:
    """Count repositories, staged entries, uploads under way, tracked copies and what waits for a review."""
    budget = _Budget(lake.kv, most_rows)
    repositories = list(lake.repositories.all())
    pending = copies = staged = queued = 0
    oldest = oldest_drop = now = lake.now()
    for repository in repositories:
        partition = partition_of(repository)
        for found in lake.pending.all(repository):
            pending += 1
            oldest = min(oldest, found.upload.created_at)
        waiting, first = lake.delete_queue.length_and_oldest(repository)
        queued += waiting
        oldest_drop = min(oldest_drop, first or now)
        copies += budget.count(partition, b"copies/")
        for record in lake.branches.all(repository):
            staged += sum(budget.count(token) for token in record.tokens)
    return LakeCounts(
        repositories=len(repositories),
        staged=staged,
        pending=pending,
        pending_oldest_seconds=(now - oldest).total_seconds(),
        copies=copies,
        queued=queued,
        queued_oldest_seconds=(now - oldest_drop).total_seconds(),
        is_cut=budget.is_cut,
    )


class _Budget:
    def __init__(self, kv: KeyValueStore, rows: int) -> None:
        self._kv = kv
        self._rows = rows
        self.is_cut = False

    def count(self, partition: str, prefix: bytes = b"") -> int:
        return sum(1 for _ in self._cut(scan(self._kv, partition, prefix=prefix)))

    def _cut(self, rows: Iterable[Row]) -> Iterable[Row]:
        for row in rows:
            if self._rows == 0:
                self.is_cut = True
                return
            self._rows -= 1
            yield row
