"""The engine on Spark: DataFrame API only, so it runs on local threads, on a cluster and over Spark Connect."""

from __future__ import annotations

import gc
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession

from lakesweep.engine.schemas import spark_ddl
from lakesweep.engine.tasks import Meet, Scatter, Work
from lakesweep.engine.watching import TaskWatch
from lakesweep.errors import LakesweepError

# So many bytes of items go to every task with its function, of which each then takes its own: dealing them out would
# take a stage of its own in every job. Spark broadcasts larger functions.
_MOST_BYTES_TO_SEND_ALL = 1 << 19

_frozen_modules = 0


class SparkEngine:
    """Runs scatters as Spark jobs. One action per call: a frame is never computed twice by two actions."""

    def __init__(
        self, spark: SparkSession, on_tasks: Callable[[int, int], None] | None = None
    ) -> None:
        """`on_tasks` is told now and then how many of how many tasks are done."""
        self._spark = spark
        self._on_tasks = on_tasks
        self._slots = _parallelism(spark)

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        return self._slots

    def begin(self) -> None:
        """A session that is there has begun."""

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        if not scatter.items:
            return scatter.schema.empty_table()
        return self._collected(self._frame(scatter), scatter.schema)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""

        def met_in_arrow(ours: pa.Table, theirs: pa.Table) -> pa.Table:
            # Spark counts the parameters of what it is given, and miscounts those of a callable object.
            try:
                return meet(ours, theirs)
            finally:
                freeze_imports()

        met = (
            self._cells_by_partition(left, partitions)
            .cogroup(self._cells_by_partition(right, partitions))
            .applyInArrow(met_in_arrow, schema=spark_ddl(schema))
        )
        return self._collected(met, schema)

    def _collected(self, frame: DataFrame, schema: pa.Schema) -> pa.Table:
        try:
            with _translated_errors(), TaskWatch(self._spark, self._on_tasks):
                return frame.toArrow().cast(schema)
        except KeyboardInterrupt:
            # Spark does this itself only where the session was made by the main thread. Tasks that go on after their
            # driver would work without its lease.
            if hasattr(self._spark, "sparkContext"):
                self._spark.sparkContext.cancelAllJobs()
            raise

    def _cells_by_partition(self, scatter: Scatter, partitions: int) -> GroupedData:
        # Spread by Spark's own hash of so few numbers, some tasks would get several partitions and others none.
        return self._frame(scatter).repartitionById(partitions, "partition").groupBy("partition")

    def _frame(self, scatter: Scatter) -> DataFrame:
        """The scatter as a lazy frame: items dealt out to tasks, each task mapping its own."""
        items = [pickle.dumps(item) for item in scatter.items]
        ddl = spark_ddl(scatter.schema)
        if sum(len(item) for item in items) <= _MOST_BYTES_TO_SEND_ALL:
            mapper = _MapperOfAll(scatter.work, items, scatter.dealt())
            return self._spark.range(0, scatter.tasks, 1, scatter.tasks).mapInArrow(mapper, ddl)
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
            .mapInArrow(_Mapper(scatter.work), ddl)
        )


class _Mapper:
    """A work function as Spark calls it, with its items unpickled."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.mapped(item.as_buffer() for b in batches for item in b.column("item"))

    def mapped(self, items: Iterable[bytes | pa.Buffer]) -> Iterator[pa.RecordBatch]:
        """What the work function makes of the pickled items."""
        try:
            yield from self._work(pickle.loads(item) for item in items)
        finally:
            freeze_imports()


class _MapperOfAll:
    """The same with the items of all tasks; a row holds the number of a task."""

    def __init__(self, work: Work, items: Sequence[bytes], task_of: Sequence[int]) -> None:
        self._mapper = _Mapper(work)
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


class _translated_errors:
    """Turns a failed task's exception back into ours, so that its message and exit status survive the JVM."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is None or isinstance(error, LakesweepError) or not isinstance(error, Exception):
            return
        original = find_task_error(str(error))
        if original is not None:
            raise original from error


def find_task_error(text: str) -> LakesweepError | None:
    """The LakesweepError named in a task's traceback, rebuilt from its class and message."""
    from lakesweep import errors

    for name in errors.__all__:
        marker = f"lakesweep.errors.{name}: "
        at = text.rfind(marker)
        if at >= 0:
            message = text[at + len(marker) :].split("\n", 1)[0].strip()
            cls: type[LakesweepError] = getattr(errors, name)
            return cls(message)
    return None


def _parallelism(spark: SparkSession) -> int:
    """Slots of the cluster, from its settings: Spark Connect has no SparkContext to ask."""
    configured = spark.conf.get("spark.default.parallelism", "") or spark.conf.get(
        "spark.cores.max", ""
    )
    if configured:
        return max(1, int(configured))
    local = re.fullmatch(r"local\[(\d+|\*).*\]", str(spark.conf.get("spark.master", "") or ""))
    if local:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    executors = int(spark.conf.get("spark.executor.instances", "4") or 4)
    return max(1, executors * int(spark.conf.get("spark.executor.cores", "1") or 1))
