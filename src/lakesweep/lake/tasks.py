"""Work that goes on after its request was answered, with its progress in the ref store for any process to read."""

from __future__ import annotations

import logging
import secrets
import string
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakesweep.errors import LakesweepError
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import MissingError, RefStoreError
from lakesweep.lake.hidden_paths import HiddenPaths
from lakesweep.lake.records import decode_record, encode_record, fields_of, from_micros
from lakesweep.lake.values import Repository

logger = logging.getLogger(__name__)

_PREFIX = b"tasks/"
_ID_CHARACTERS = string.ascii_letters + string.digits
_HEARTBEAT = timedelta(seconds=20)
_SILENCE_MEANS_DEATH = timedelta(minutes=3)
_KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class TaskState:
    """How far a task has come. `progress` and `result` are the task's own."""

    id: str
    completed: bool
    updated_at: datetime
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    error: str | None = None


class RunningTask:
    """A task's view of itself: where it leaves progress, and sees that it should stop."""

    def __init__(self) -> None:
        self.progress: dict[str, Any] = {}
        self.is_cancelled = threading.Event()


class Tasks:
    """Background tasks of this process, and the records of all."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="lake-task")
        self._running: dict[str, tuple[Repository, RunningTask]] = {}
        self._ended: dict[str, tuple[Repository, TaskState]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None

    def start(
        self,
        repository: Repository,
        id_prefix: str,
        work: Callable[[RunningTask], dict[str, Any]],
    ) -> str:
        """Start a task and give its id. An error of ours that ends it is kept as its result."""
        task_id = id_prefix + "".join(secrets.choice(_ID_CHARACTERS) for _ in range(20))
        task = RunningTask()
        self._write(repository, TaskState(task_id, False, self._context.now()))
        with self._lock:
            self._running[task_id] = (repository, task)
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, daemon=True)
                self._heart.start()
        self._pool.submit(self._run, repository, task_id, task, work)
        return task_id

    def status(self, repository: Repository, task_id: str) -> TaskState:
        """The task's state; one whose process fell silent has failed."""
        raw = self._context.kv.get(partition_of(repository), _key(task_id))
        if raw is None:
            raise MissingError(
                f"repository {repository.id} has no task {task_id!r}", kind="task-not-found"
            )
        state = _decode(raw)
        if not state.completed and self._context.now() - state.updated_at > _SILENCE_MEANS_DEATH:
            return TaskState(
                state.id,
                True,
                state.updated_at,
                state.progress,
                error="the server that ran this task stopped before its end; start it again",
            )
        return state

    def cancel(self, task_id: str) -> bool:
        """Ask a task of this process to stop; False when it is not running here."""
        with self._lock:
            running = self._running.get(task_id)
        if running is None:
            return False
        running[1].is_cancelled.set()
        return True

    def remove_old(self, repository: Repository, now: datetime) -> None:
        """Forget tasks that ended, or fell silent, long ago."""
        kv = self._context.kv
        for key, raw in list(self._context.rows(repository, _PREFIX)):
            if _decode(raw).updated_at + _KEPT < now:
                kv.delete_if(partition_of(repository), key, raw)

    def close(self) -> None:
        """Wait for running tasks."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._heart is not None:
            self._heart.join()
        with self._lock:
            self._tell_of_ends()

    def _run(
        self,
        repository: Repository,
        task_id: str,
        task: RunningTask,
        work: Callable[[RunningTask], dict[str, Any]],
    ) -> None:
        result: dict[str, Any] | None = None
        error: str | None = None
        try:
            result = work(task)
        except LakesweepError as failed:
            # Whoever asks for the task's status reads it.
            hidden = HiddenPaths(self._context.settings.data_dir)
            error = hidden.take_out_of(failed.message.encode(errors="replace")).decode()
        except Exception as bug:
            # Nobody waits for this thread, so the task's record is the only place where this can be seen.
            logger.exception("task#%s failed", task_id)
            error = f"internal error: {type(bug).__name__}"
        with self._lock:
            del self._running[task_id]
            state = TaskState(task_id, True, self._context.now(), task.progress, result, error)
            self._ended[task_id] = (repository, state)
            self._tell_of_ends()

    def _beat(self) -> None:
        while not self._stop.wait(_HEARTBEAT.total_seconds()):
            with self._lock:
                self._tell_of_ends()
                for task_id, (repository, task) in self._running.items():
                    progress = dict(task.progress)
                    now = self._context.now()
                    with _trying_again(task_id):
                        self._write(repository, TaskState(task_id, False, now, progress))

    def _tell_of_ends(self) -> None:
        """Write how tasks ended; what the ref store does not take is written at a later beat."""
        for task_id, (repository, state) in list(self._ended.items()):
            with _trying_again(task_id):
                self._write(repository, state)
                del self._ended[task_id]

    def _write(self, repository: Repository, state: TaskState) -> None:
        record = encode_record(fields_of(state))
        self._context.kv.set(partition_of(repository), _key(state.id), record)


@contextmanager
def _trying_again(task_id: str) -> Iterator[None]:
    """Nobody else would tell of tasks: a ref store that fails for a moment must not make all of them pass for dead."""
    try:
        yield
    except RefStoreError as failed:
        logger.warning(
            "the state of task#%s was not written, and will be again: %s", task_id, failed
        )


def _key(task_id: str) -> bytes:
    return _PREFIX + task_id.encode(errors="surrogatepass")


def _decode(raw: bytes) -> TaskState:
    fields = decode_record(raw)
    return TaskState(
        fields["id"],
        fields["completed"],
        from_micros(fields["updated_at"]),
        fields["progress"],
        fields["result"],
        fields["error"],
    )
