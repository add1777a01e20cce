"""The engine on Spark: DataFrame API only, so it runs on local threads, on a cluster and over Spark Connect."""

from __future__ import annotations

import gc
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, GroupedData, SparkSession

from lakesweep.engine.process_tree import own_process_tree
from lakesweep.engine.schemas import spark_ddl
from lakesweep.engine.slots import SETTINGS, slots_of
from lakesweep.engine.task_errors import (
    cells_or_errors,
    met_or_error,
    rows_of,
    rows_or_error,
    with_error_column,
)
from lakesweep.engine.task_failures import failure_of_job
from lakesweep.engine.tasks import CELL_SCHEMA, Meet, Scatter, Work
from lakesweep.engine.watching import TaskWatch

# So many bytes of items go to every task with its function, of which each then takes its own: dealing them out would
# take a stage of its own in every job. Spark broadcasts larger functions.
_MOST_BYTES_TO_SEND_ALL = 1 << 19

# Makes data of the error that ends a work function: `(batches, *, is_tried_again) -> batches`.
_Guard = Callable[..., Iterator[pa.RecordBatch]]

_frozen_modules = 0


class SparkEngine:
    """Runs scatters as Spark jobs. One action per call: a frame is never computed twice by two actions."""

    def __init__(
        self, spark: SparkSession, on_tasks: Callable[[int, int], None] | None = None
    ) -> None:
        """`on_tasks` is told now and then how many of how many tasks are done."""
        self._spark = spark
        self._on_tasks = on_tasks
        self._settings = {name: spark.conf.get(name, "") or "" for name in SETTINGS}
        self._has_retries = _tries_again(spark)
        # Asked now: after a failure there may be no JVM left to answer, and a lease depends on it.
        self._runs_here = _runs_here(spark)

    @property
    def slots(self) -> int:
        """How many tasks run at the same time; executors may come and go, so it is asked each time."""
        return slots_of(self._settings, lambda: _cores_now(self._spark))

    @property
    def process_tree(self) -> str:
        """The mark of this machine's JVM and workers; empty where tasks run elsewhere."""
        return own_process_tree() if self._runs_here else ""

    @property
    def seconds_here(self) -> float:
        """Zero: all work is left to executors."""
        return 0.0

    def begin(self, seconds: float | None = None) -> None:
        """Do nothing: the session has started already."""

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        if not scatter.items:
            return scatter.schema.empty_table()
        guard = partial(rows_or_error, schema=scatter.schema)
        frame = self._frame(scatter, guard, with_error_column(scatter.schema))
        return self._collected(frame, scatter.schema)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""

        has_retries = self._has_retries

        def met_in_arrow(ours: pa.Table, theirs: pa.Table) -> pa.Table:
            # Spark counts the parameters of what it is given, and miscounts those of a callable object.
            try:
                is_tried_again = has_retries and is_first_attempt()
                return met_or_error(meet, ours, theirs, schema, is_tried_again=is_tried_again)
            finally:
                freeze_imports()

        met = (
            self._cells_by_partition(left, partitions)
            .cogroup(self._cells_by_partition(right, partitions))
            .applyInArrow(met_in_arrow, schema=spark_ddl(with_error_column(schema)))
        )
        return self._collected(met, schema)

    def _collected(self, frame: DataFrame, schema: pa.Schema) -> pa.Table:
        try:
            with TaskWatch(self._spark, self._on_tasks):
                output = frame.toArrow()
        except KeyboardInterrupt:
            # Spark does this itself only where the session was made by the main thread. Tasks that go on after their
            # driver would work without its lease.
            if hasattr(self._spark, "sparkContext"):
                self._spark.sparkContext.cancelAllJobs()
            raise
        except Exception as error:
            raise failure_of_job(self._spark, error) from error
        return rows_of(output, schema)

    def _cells_by_partition(self, scatter: Scatter, partitions: int) -> GroupedData:
        # Spread by Spark's own hash of so few numbers, some tasks would get several partitions and others none.
        guard = partial(cells_or_errors, partitions=partitions)
        cells = self._frame(scatter, guard, CELL_SCHEMA)
        return cells.repartitionById(partitions, "partition").groupBy("partition")

    def _frame(self, scatter: Scatter, guard: _Guard, schema: pa.Schema) -> DataFrame:
        """The scatter as a lazy frame: items dealt out to tasks, each task mapping its own."""
        items = [pickle.dumps(item) for item in scatter.items]
        ddl = spark_ddl(schema)
        mapper = _Mapper(scatter.work, guard, self._has_retries)
        if sum(len(item) for item in items) <= _MOST_BYTES_TO_SEND_ALL:
            mapper_of_all = _MapperOfAll(mapper, items, scatter.dealt())
            numbers = self._spark.range(0, scatter.tasks, 1, scatter.tasks)
            return numbers.mapInArrow(mapper_of_all, ddl)
        rows = pa.table(
            {
                "task": pa.array(scatter.dealt(), pa.int32()),
                "item": pa.array(items, pa.binary()),
            }
        )
        return (
            self._spark.createDataFrame(rows)
            .repartitionById(scatter.tasks, "task")
            .select("item")
            .mapInArrow(mapper, ddl)
        )


class _Mapper:
    """A work function as Spark calls it: its items unpickled, its errors made data by `guard`."""

    def __init__(self, work: Work, guard: _Guard, has_retries: bool) -> None:
        self._work = work
        self._guard = guard
        self._has_retries = has_retries

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.mapped(item.as_buffer() for b in batches for item in b.column("item"))

    def mapped(self, items: Iterable[bytes | pa.Buffer]) -> Iterator[pa.RecordBatch]:
        """The batches that the work function makes of pickled items."""
        try:
            batches = self._work(pickle.loads(item) for item in items)
            is_tried_again = self._has_retries and is_first_attempt()
            yield from self._guard(batches, is_tried_again=is_tried_again)
        finally:
            freeze_imports()


class _MapperOfAll:
    """A work function that has the items of all tasks with it, as Spark calls it; a row holds the number of a task."""

    def __init__(self, mapper: _Mapper, items: Sequence[bytes], task_of: Sequence[int]) -> None:
        self._mapper = mapper
        self._items = items
        self._task_of = task_of

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = {number for batch in batches for number in batch.column(0).to_pylist()}
        mine = (i for i, task in zip(self._items, self._task_of, strict=True) if task in numbers)
        return self._mapper.mapped(mine)


def freeze_imports() -> None:
    """Spare the modules that a task has loaded the full collection that Spark's worker runs after every task.

    Walking through them takes 60 ms of CPU, which is more than most tasks take. Work functions import as they go, so
    it is done again whenever there are more modules than the last time.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


def is_first_attempt() -> bool:
    """Whether this task is tried for the first time."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() == 0


def _tries_again(spark: SparkSession) -> bool:
    """Whether Spark tries a failed task once more. On threads of this machine it does not, unless it was told to."""
    # A session's own settings may name a master that came too late; its context knows the one it works for.
    has_context = hasattr(spark, "sparkContext")
    master = spark.sparkContext.master if has_context else spark.conf.get("spark.master", "")
    local = re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", master or "")
    if local:
        return int(local[1] or 1) > 1
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4) > 1


def _runs_here(spark: SparkSession) -> bool:
    """Whether all tasks run in processes that this one started. Those of a Connect server do not."""
    master = str(spark.conf.get("spark.master", "") or "")
    return hasattr(spark, "sparkContext") and re.fullmatch(r"local(\[.*\])?", master) is not None


def _cores_now(spark: SparkSession) -> int:
    """Cores of the executors that have come; Spark Connect has no SparkContext to ask."""
    return int(spark.sparkContext.defaultParallelism) if hasattr(spark, "sparkContext") else 0
