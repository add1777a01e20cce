"""An engine that starts when it is first needed: what is refused before that never waits for Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

import pyarrow as pa

from lakesweep.engine.tasks import Engine, Meet, Scatter


class LateEngine:
    """Hands everything to the engine that `start` gives, which is called once, at the first use.

    As a context manager it may start a little sooner: `begin` then starts it in a thread, beside the driver's own
    requests, and leaving the block waits for a start under way.
    """

    def __init__(self, start: Callable[[], Engine]) -> None:
        self._start = start
        self._engine: Engine | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._may_begin = False

    def __enter__(self) -> Self:
        self._may_begin = True
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._may_begin = False
        if self._thread is not None:
            self._thread.join()

    def _started(self) -> Engine:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error
        if self._engine is None:
            self._engine = self._start()
        return self._engine

    @property
    def has_started(self) -> bool:
        """Whether it was used, or has begun to start."""
        return self._engine is not None or self._thread is not None

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        return self._started().slots

    @property
    def process_tree(self) -> str:
        """The mark of its tasks' processes; not known before it starts, and nobody waits for that."""
        return self._engine.process_tree if self._engine is not None else ""

    @property
    def seconds_here(self) -> float:
        """Zero: all work is left to the engine that will be started."""
        return 0.0

    def begin(self, seconds: float | None = None) -> None:
        """Start now, in a thread. Outside its block it does nothing: nobody would wait for the thread."""
        if self._may_begin and self._thread is None and self._engine is None:
            self._thread = threading.Thread(target=self._start_in_thread, name="engine-start")
            self._thread.start()

    def _start_in_thread(self) -> None:
        try:
            self._engine = self._start()
        except BaseException as error:  # noqa: BLE001 (told to whoever uses the engine first)
            self._error = error

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        return self._started().collect(scatter)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""
        return self._started().meet(left, right, meet, schema, partitions)
