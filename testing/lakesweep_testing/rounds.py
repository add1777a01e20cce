"""Sweeps of many rounds: an engine that gets to one chunk in each, and notes what every round brings together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from lakesweep.collector.judge.references import CANARY
from lakesweep.collector.lakefs.checks.reupload_lookups import SPANS_SCHEMA
from lakesweep.collector.lakefs.references import AddressList, RangeReference
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.engine.tasks import Meet, Scatter
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import Scene

__all__ = ["OneChunkARound"]


class OneChunkARound(InProcessEngine):
    """Gets to one chunk in each round; the others come too late. `between` is called after each round with its number."""

    def __init__(self, scene: Scene, between: Callable[[int], None] = lambda number: None) -> None:
        super().__init__()
        self._clock = scene.lake.clock
        self._between = between
        self.rounds = 0
        self.ranges: list[set[str]] = []  # of each meeting: those that were joined
        self.canaries: list[int] = []
        self.candidates: list[int] = []  # rows
        self.searched: list[list[str]] = []  # ranges in which re-uploads were looked for

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        lists = [item for item in left.items if isinstance(item, AddressList)]
        self.ranges.append({i.range_id for i in left.items if isinstance(i, RangeReference)})
        self.canaries.append(sum(len(i.addresses) for i in lists if i.kind == CANARY))
        met = super().meet(left, right, meet, schema, partitions)
        verdicts = ("live", "gone", "young", "protected", "expired", "unreferenced", "undated")
        self.candidates.append(sum(sum(met.column(v).to_pylist()) for v in verdicts))
        return met

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == SPANS_SCHEMA:
            self.searched.append(list(scatter.items))
        if scatter.schema != DELETED_SCHEMA:
            return super().collect(scatter)
        late = self._clock.now - timedelta(minutes=1)
        items = [replace(chunk, not_after=late) for chunk in scatter.items[1:]]
        deleted = super().collect(replace(scatter, items=[scatter.items[0], *items]))
        self.rounds += 1
        self._between(self.rounds)
        return deleted
