"""An engine that starts when it is first needed: what is refused before that never waits for Spark."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakesweep.engine.tasks import Engine, Meet, Scatter


class LateEngine:
    """Hands everything to the engine that `start` gives, which is called once, at the first use."""

    def __init__(self, start: Callable[[], Engine]) -> None:
        self._start = start
        self._engine: Engine | None = None

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = self._start()
        return self._engine

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        return self._started().slots

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        return self._started().collect(scatter)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""
        return self._started().meet(left, right, meet, schema, partitions)
