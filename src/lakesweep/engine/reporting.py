"""An engine whose tasks report their progress: every scatter that it hands on carries a channel to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from lakesweep.engine.tasks import Engine, Meet, Scatter
from lakesweep.errors import LakesweepError
from lakesweep.progress.board import Mailbox, ProgressBoard
from lakesweep.progress.loopback import LoopbackMailbox
from lakesweep.progress.task_reports import ReportedWork


class ReportingEngine:
    """Hands everything to another engine. Results are that engine's own; only the display depends on reports."""

    def __init__(
        self, engine: Engine, board: ProgressBoard, elsewhere: Callable[[], Mailbox | None]
    ) -> None:
        """`elsewhere` gives the mailbox of tasks that run on other machines, or None where there is none."""
        self._engine = engine
        self._board = board
        self._elsewhere = elsewhere

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        return self._engine.slots

    @property
    def process_tree(self) -> str:
        """The mark that all processes of its tasks carry."""
        return self._engine.process_tree

    @property
    def seconds_here(self) -> float:
        """How much work it would do in the driver's own process."""
        return self._engine.seconds_here

    def begin(self, seconds: float | None = None) -> None:
        """Work is about to come."""
        self._engine.begin(seconds)

    def collect(self, scatter: Scatter) -> pa.Table:
        """Do the work and bring its rows to the driver."""
        with self._reported(scatter) as (reported,):
            return self._engine.collect(reported)

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        """Bring the cells of both sides together by partition, and collect what each meeting returns."""
        with self._reported(left, right) as (ours, theirs):
            return self._engine.meet(ours, theirs, meet, schema, partitions)

    @contextmanager
    def _reported(self, *scatters: Scatter) -> Iterator[list[Scatter]]:
        ids = [self._board.scatter_begins(s.objects, s.size_bytes) for s in scatters]
        mailbox = self._mailbox()
        if mailbox is None:
            yield list(scatters)
            return
        with self._board.listening(mailbox):
            yield [
                replace(scatter, work=ReportedWork(scatter.work, mailbox.channel, number))
                for scatter, number in zip(scatters, ids, strict=True)
            ]

    def _mailbox(self) -> Mailbox | None:
        """Datagrams where all tasks run in processes of this machine, else what the run's own folder offers."""
        try:
            return LoopbackMailbox() if self._engine.process_tree else self._elsewhere()
        except (OSError, LakesweepError):
            return None  # neither socket nor store to be had: the display does without
