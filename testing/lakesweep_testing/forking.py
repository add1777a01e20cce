"""An engine whose tasks run in processes of their own, one after another; a task whose process died is run again."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakesweep.engine.here_first import meet_cells
from lakesweep.engine.tasks import Meet, Scatter
from lakesweep.errors import LakesweepError
from lakesweep_testing.inprocess import InProcessEngine

__all__ = ["ForkingEngine"]

ATTEMPTS = 4  # as many as Spark makes by default


class ForkingEngine(InProcessEngine):
    """Forks a process for each task and each meeting. For processes with no busy thread but their own."""

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and return the rows of tasks that came to their end."""
        tables = [
            _in_a_process(partial(_rows, scatter, items)) for items in scatter.tasks_of_items()
        ]
        return pa.concat_tables([scatter.schema.empty_table(), *tables])

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring both sides together in a process."""
        ours, theirs = self.collect(left), self.collect(right)
        return _in_a_process(lambda: meet_cells(ours, theirs, meet, schema, partitions))


def _rows(scatter: Scatter, items: Sequence[Any]) -> pa.Table:
    return pa.Table.from_batches(scatter.work(iter(items)), schema=scatter.schema)


def _in_a_process(work: Callable[[], pa.Table]) -> pa.Table:
    for _ in range(ATTEMPTS):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            _send(work, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            result = pickle.loads(said)
            if isinstance(result, BaseException):
                raise result
            return result
    raise RuntimeError(f"a task died {ATTEMPTS} times")


def _send(work: Callable[[], pa.Table], writer: int) -> None:
    try:
        result: object = work()
    except LakesweepError as error:
        result = error
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(result, pipe)
    os._exit(0)
