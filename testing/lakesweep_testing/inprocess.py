"""An engine without Spark: the same work functions and meetings, one task after another, in this process."""

from __future__ import annotations

import pickle

import pyarrow as pa

from lakesweep.engine.here_first import meet_cells
from lakesweep.engine.process_tree import NO_OTHER_PROCESS
from lakesweep.engine.schemas import spark_ddl
from lakesweep.engine.tasks import Meet, Scatter


class InProcessEngine:
    """Runs scatters at once. Items and work are pickled on the way, as they would be for a cluster."""

    def __init__(self, slots: int = 2) -> None:
        self._slots = slots

    @property
    def slots(self) -> int:
        """How many tasks a scatter is cut into."""
        return self._slots

    @property
    def process_tree(self) -> str:
        """Tasks end with this process."""
        return NO_OTHER_PROCESS

    @property
    def seconds_here(self) -> float:
        """It stands for an engine whose tasks run elsewhere."""
        return 0.0

    def begin(self, seconds: float | None = None) -> None:
        """This process runs already."""

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and return its rows."""
        spark_ddl(
            scatter.schema
        )  # Spark knows few types; a schema that it can't read is told here too
        work = pickle.loads(pickle.dumps(scatter.work))
        batches: list[pa.RecordBatch] = []
        for items in scatter.tasks_of_items():
            batches += work(iter(pickle.loads(pickle.dumps(items))))
        return pa.Table.from_batches(batches, schema=scatter.schema)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition."""
        spark_ddl(schema)
        meet = pickle.loads(pickle.dumps(meet))
        return meet_cells(self.collect(left), self.collect(right), meet, schema, partitions)
