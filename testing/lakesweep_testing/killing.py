"""An engine whose workers are killed: each kind of work dies once, after it has done something and before it is believed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakesweep.engine.tasks import Engine, Meet, Scatter, Work

__all__ = ["KillingEngine"]


def _first_time(marker: str) -> bool:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _DyingWork:
    """Ends its process without a word after the first batch of its first attempt: what it wrote stays, its rows are lost."""

    work: Work
    marker: str

    def __call__(self, items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in self.work(items):
            yield batch
            if _first_time(self.marker):
                os._exit(9)


@dataclass(frozen=True, slots=True)
class _DyingMeet:
    """A meeting that ends its process at its first attempt: its parts are written, and then it is gone."""

    meet: Meet
    marker: str

    def __call__(self, ours: pa.Table, theirs: pa.Table) -> pa.Table:
        met = self.meet(ours, theirs)
        if _first_time(self.marker):
            os._exit(9)
        return met


class KillingEngine:
    """Hands everything to another engine, with one death in each scatter and each meeting; `deaths` tells how many."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        return self._engine.slots

    @property
    def process_tree(self) -> str:
        """The mark of its tasks' processes."""
        return self._engine.process_tree

    @property
    def seconds_here(self) -> float:
        """How much work it would do in the driver's own process."""
        return self._engine.seconds_here

    def begin(self, seconds: float | None = None) -> None:
        """Start what takes long to start."""
        self._engine.begin(seconds)

    @property
    def deaths(self) -> int:
        """How many workers died so far."""
        return len(list(self._folder.iterdir()))

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work, dying on the way."""
        return self._engine.collect(self._dying(scatter))

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring both sides together, dying on both and in the meeting."""
        return self._engine.meet(
            self._dying(left),
            self._dying(right),
            _DyingMeet(meet, self._marker()),
            schema,
            partitions,
        )

    def _dying(self, scatter: Scatter) -> Scatter:
        return replace(scatter, work=_DyingWork(scatter.work, self._marker()))

    def _marker(self) -> str:
        return str(self._folder / uuid.uuid4().hex)
