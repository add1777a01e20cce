"""Reads files of tables, wherever they lie, with the tasks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.phases import Phases
from lakesweep.engine.tasks import SECONDS_PER_FILE, Engine, Scatter, tasks_for

# A work function that is told of the stores first.
TableWork = Callable[[TableStores, Iterator[Any]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class TableReader:
    """The stores that tables lie in, and the tasks that read them."""

    stores: TableStores
    engine: Engine
    phases: Phases
    most_tasks: int = 200

    def read(
        self, files: Sequence[object], work: TableWork, schema: pa.Schema
    ) -> Iterator[dict[str, Any]]:
        """The rows that a work function makes of many small files."""
        tasks = tasks_for(len(files), self.engine.slots, at_most=self.most_tasks, per_task=8)
        seconds = len(files) * SECONDS_PER_FILE
        scatter = Scatter(files, partial(work, self.stores), schema, tasks, seconds=seconds)
        for batch in self.engine.collect(scatter).to_batches():
            yield from batch.to_pylist()
