"""What the shared steps of a run work with, whatever the catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakesweep.collector.parts import Part
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins
from lakesweep.engine.tasks import Engine, Scatter, Work, tasks_for
from lakesweep.errors import LakesweepError, foreign_errors_as_ours
from lakesweep.storage import ObjectStore

logger = logging.getLogger(__name__)

_Row = dict[str, Any]


def utc_now() -> datetime:
    """The clock of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Resources:
    """What every step of a run needs: the folder for its own files, the engine, this machine's clock, and limits."""

    target: Target  # the folder that holds the plan, the ledger and the record
    engine: Engine
    phases: Phases
    clock: Callable[[], datetime]
    margins: SafetyMargins = SAFETY_FULL
    most_tasks: int = 200
    most_readers: int = 50  # tasks that read references

    @property
    def name(self) -> str:
        """The repository or catalog, as messages name it."""
        return self.phases.repository

    @property
    def store(self) -> ObjectStore:
        """The store of the folder that holds the plan, the ledger and the record."""
        return self.target.open()

    def run_on_parts(
        self, parts: Sequence[Part], work: Work, schema: pa.Schema, seconds: float | None = None
    ) -> list[_Row]:
        """The rows that a work function gives for the keys of these parts; `seconds` is about what all of it costs."""
        if not parts:
            return []
        tasks = tasks_for(len(parts), self.engine.slots, at_most=self.most_tasks)
        scatter = Scatter([part.key for part in parts], work, schema, tasks, seconds=seconds)
        rows: list[_Row] = self.engine.collect(scatter).to_pylist()
        return rows

    def save_record(self, key: str, record: RunRecord) -> None:
        """Make the record durable, and let whoever reports on this run find it."""
        self.phases.saved_record = record
        self.store.write(key, encode_record(record))

    def save_record_if_possible(self, key: str, record: RunRecord) -> None:
        """Write the record of a run that stopped; where the store is what failed, the earlier one has to do."""
        try:
            with foreign_errors_as_ours("Its record was not written."):
                self.save_record(key, record)
        except LakesweepError as error:
            logger.warning("run#%s its record could not be written: %s", record.run_id, error)

    def ended(
        self, record: RunRecord, status: RunStatus, reason: str = "", kind: str = ""
    ) -> RunRecord:
        """The record of a run that has ended now; `kind` is that of the error that ended it."""
        return replace(
            record,
            status=status,
            reason=reason,
            kind=kind,
            finished_at=self.clock(),
            phases=tuple(self.phases.done),
        )
