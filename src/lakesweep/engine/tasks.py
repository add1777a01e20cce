"""What an engine runs: work functions over items, and groups of their output met partition by partition.

No pyspark here, so that work functions and runs can be tested without a JVM.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

# What reading a small file and making something of it costs on one core, with many requests in flight.
SECONDS_PER_FILE = 0.001

# A work function does I/O on the items of one task and returns Arrow batches. It may run twice, or in two places
# at once: whatever it writes has a name of its own, and only the names in its returned rows count.
Work = Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]

# A meeting gets one partition's cells of both sides and returns that partition's result rows.
Meet = Callable[[pa.Table, pa.Table], pa.Table]

CELL_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("blob", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Items, the work to do on them, the rows it yields, and over how many tasks to spread them.

    Items are dealt out in turn, unless `task_of` names the task of each. `seconds` is about what all of it costs on one
    core, by which an engine may choose where to run it; None where nobody knows. `objects` and `size_bytes` are about what
    it will handle, for a display of its progress.
    """

    items: Sequence[Any]
    work: Work
    schema: pa.Schema
    tasks: int
    task_of: Sequence[int] | None = None
    seconds: float | None = None
    objects: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise ValueError(f"a scatter needs at least one task, got {self.tasks}")
        if self.task_of is not None:
            if len(self.task_of) != len(self.items):
                raise ValueError(
                    f"{len(self.items)} items, {len(self.task_of)} of them with a task"
                )
            if any(not 0 <= task < self.tasks for task in self.task_of):
                raise ValueError(f"an item has a task that is none of the {self.tasks}")

    def dealt(self) -> Sequence[int]:
        """The number of the task that gets each item."""
        if self.task_of is not None:
            return self.task_of
        return [number % self.tasks for number in range(len(self.items))]

    def tasks_of_items(self) -> list[list[Any]]:
        """The items of each task that has any."""
        tasks: list[list[Any]] = [[] for _ in range(self.tasks)]
        for task, item in zip(self.dealt(), self.items, strict=True):
            tasks[task].append(item)
        return [items for items in tasks if items]


class Engine(Protocol):
    """Runs scatters. Results are the rows of committed task output, collected on the driver: summaries, never objects."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    @property
    def process_tree(self) -> str:
        """The mark that all processes of its tasks carry (`process_tree.py`); empty where it is not known that all do."""
        ...

    @property
    def seconds_here(self) -> float:
        """How much work, in seconds of a core, it would do in the driver's own process before it needs another."""
        ...

    def begin(self, seconds: float | None = None) -> None:
        """Work is about to come: an engine that takes long to start may do so now, beside what its caller does.

        `seconds` is what that work costs at least, by what is known so far; None: nobody knows, and it may be much.
        """
        ...

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        ...

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""
        ...


def tasks_for(items: int, slots: int, *, at_most: int, per_task: int = 1, waves: int = 2) -> int:
    """A task count that keeps every slot busy and gives each task enough to be worth starting.

    Starting a task takes some 30 ms. More waves of them even out work of unknown size.
    """
    wanted = math.ceil(items / per_task)
    return max(1, min(wanted, at_most, max(slots * waves, 1)))


def deal_evenly(weights: Sequence[int], tasks: int) -> list[int]:
    """The number of a task for each item, so that tasks get about equal weights: heaviest items first, each to the lightest task."""
    laden = [(0, task) for task in range(tasks)]
    task_of = [0] * len(weights)
    for number in sorted(range(len(weights)), key=lambda n: -weights[n]):
        weight, task = heapq.heappop(laden)
        task_of[number] = task
        heapq.heappush(laden, (weight + weights[number], task))
    return task_of


def chunked(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of up to `size` items."""
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
