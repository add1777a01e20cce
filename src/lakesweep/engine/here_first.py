"""An engine for one machine that does small work in this process, and starts Spark only for what is left of large work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.engine.late import LateEngine
from lakesweep.engine.process_tree import mark_process_tree
from lakesweep.engine.tasks import Engine, Meet, Scatter

# Starting Spark and its workers takes about so many seconds of a core. What takes less is done sooner without them, and
# what turns out to take more has lost that much at most.
_SECONDS_OF_A_START = 12.0


class HereFirst:
    """Runs tasks one after another in this process, while all of them together are less work than a start of Spark.

    A scatter that tells its cost runs in one place; it is chosen by what it will cost, and charged by what it took. Of one that can't tell (a listing), Spark takes over the tasks that
    are left once the others have taken too long; or it gets all of it, where a single task may be large. No JVM may be
    there that does not carry this process's mark.
    """

    def __init__(
        self,
        start: Callable[[], Engine],
        seconds: float = _SECONDS_OF_A_START,
        on_tasks: Callable[[int, int], None] | None = None,
        *,
        takes_unknown: bool = True,
    ) -> None:
        """`start` gives the engine of large work; it is called when that work comes.

        `on_tasks` is told how many of how many tasks are done. Without `takes_unknown`, what can't tell its cost is Spark's.
        """
        self._large = LateEngine(start)
        self._takes_unknown = takes_unknown
        self._on_tasks = on_tasks
        self._seconds_left = seconds
        self._slots = os.cpu_count() or 1
        self._process_tree = mark_process_tree()

    def __enter__(self) -> Self:
        self._large.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._large.__exit__(*exc_info)

    @property
    def slots(self) -> int:
        """How many tasks could run at the same time."""
        return self._large.slots if self._large.has_started else self._slots

    @property
    def process_tree(self) -> str:
        """The mark that Spark's processes will carry if they come; a lease must tell of them before they do."""
        return self._process_tree

    @property
    def seconds_here(self) -> float:
        """How many more seconds of work this process will do before it leaves work to Spark."""
        return 0.0 if self._large.has_started else max(0.0, self._seconds_left)

    def begin(self, seconds: float | None = None) -> None:
        """Start Spark now if the work to come is known to need it; else it starts when work turns out to be too much."""
        if not self._has_room(seconds):
            self._large.begin()

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        if not self._takes(scatter.seconds):
            return self._large.collect(scatter)
        return self._collect_here(scatter)

    def _collect_here(self, scatter: Scatter) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        tasks = scatter.tasks_of_items()
        for number, items in enumerate(tasks):
            if scatter.seconds is None and self._seconds_left <= 0:
                rest = self._large.collect(_of_tasks(scatter, tasks[number:]))
                return pa.Table.from_batches([*batches, *rest.to_batches()], schema=scatter.schema)
            with self._charged():
                if self._on_tasks is not None:
                    self._on_tasks(number, len(tasks))
                batches += scatter.work(iter(items))
        return pa.Table.from_batches(batches, schema=scatter.schema)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""
        if left.seconds is None or right.seconds is None:
            return self._large.meet(left, right, meet, schema, partitions)
        if not self._takes(left.seconds + right.seconds):
            return self._large.meet(left, right, meet, schema, partitions)
        ours, theirs = (self._collect_here(side) for side in (left, right))
        with self._charged():
            return meet_cells(ours, theirs, meet, schema, partitions)

    @contextmanager
    def _charged(self) -> Iterator[None]:
        """Subtract the time that the block takes from the seconds that small work may take."""
        began = time.monotonic()
        yield
        self._seconds_left -= time.monotonic() - began

    def _takes(self, seconds: float | None) -> bool:
        """Whether work that costs this many seconds is done in this process."""
        if self._large.has_started or not self._has_room(seconds):
            # From here on all goes to Spark: it will run anyway.
            self._seconds_left = 0.0
            return False
        return True

    def _has_room(self, seconds: float | None) -> bool:
        if seconds is None and not self._takes_unknown:
            return False
        return self._seconds_left > (seconds or 0.0)


def meet_cells(
    ours: pa.Table, theirs: pa.Table, meet: Meet, schema: pa.Schema, partitions: int
) -> pa.Table:
    """Run the meeting of each partition in this process, one after another; returns the rows of all."""
    results: list[pa.Table] = []
    for partition in range(partitions):
        cells = [
            side.filter(pc.equal(side.column("partition"), partition)) for side in (ours, theirs)
        ]
        if any(cell.num_rows for cell in cells):
            results.append(meet(*cells))
    return pa.concat_tables([schema.empty_table(), *results])


def _of_tasks(scatter: Scatter, tasks: Sequence[Sequence[Any]]) -> Scatter:
    """A scatter of some of its tasks alone, for when the others are done."""
    items = [item for task in tasks for item in task]
    task_of = [number for number, task in enumerate(tasks) for _ in task]
    return replace(scatter, items=items, tasks=len(tasks), task_of=task_of)
