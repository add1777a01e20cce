"""How far Spark is: tasks done and tasks in all, asked now and then while a job runs, or told by a Connect server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

from pyspark.sql import SparkSession

_EVERY_SECONDS = 0.5


class TaskWatch:
    """Tells `on_tasks(done, total)` of the jobs that start inside the block."""

    def __init__(self, spark: SparkSession, on_tasks: Callable[[int, int], None] | None) -> None:
        self._spark = spark
        self._on_tasks = on_tasks
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._on_tasks is None:
            return
        if not hasattr(self._spark, "sparkContext"):
            cast(Any, self._spark).registerProgressHandler(self._told_by_server)
        else:
            self._thread = threading.Thread(target=self._watch, name="task-watch", daemon=True)
            self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        elif self._on_tasks is not None:
            cast(Any, self._spark).removeProgressHandler(self._told_by_server)

    def _told_by_server(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Tasks done and tasks in all, as a Connect server reports them for the stages of a job."""
        assert self._on_tasks is not None
        known = list(stages or ())
        self._on_tasks(
            sum(stage.num_completed_tasks for stage in known),
            sum(stage.num_tasks for stage in known),
        )

    def _watch(self) -> None:
        assert self._on_tasks is not None
        tracker = self._spark.sparkContext.statusTracker()
        while not self._stop.wait(_EVERY_SECONDS):
            done = total = 0
            for job in tracker.getActiveJobsIds():
                found = tracker.getJobInfo(job)
                for stage in found.stageIds if found is not None else ():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        done += info.numCompletedTasks
                        total += info.numTasks
            self._on_tasks(done, total)
