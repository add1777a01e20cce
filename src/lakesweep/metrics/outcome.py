"""How a run ended, well or badly: its record as far as there is one, its exit status, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.collector.record import Phase, RunRecord
from lakesweep.collector.unfinished import kind_of
from lakesweep.errors import InterruptedRunError, LakesweepError
from lakesweep.progress import Counts

__all__ = ["RunOutcome", "exit_status_of"]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run of a command."""

    command: str
    catalog: str  # lakefs or nessie
    repository: str
    started_at: datetime
    finished_at: datetime
    exit_status: int = 0
    kind: str = ""  # of the error; empty for a run that ended well
    record: RunRecord | None = None
    phases: tuple[Phase, ...] = ()
    phases_began_at: datetime | None = None  # when the first of them could have begun
    retries: Counts = field(default_factory=Counts)

    @property
    def is_good(self) -> bool:
        """Whether the run did all that it was asked to."""
        return self.exit_status == 0

    @property
    def labels(self) -> dict[str, str]:
        """What tells the metrics of this run from those of others."""
        return {
            "catalog": self.catalog,
            "repository": self.repository,
            "command": self.command,
        }


def exit_status_of(error: BaseException | None) -> tuple[int, str]:
    """The status that an error ends a command with, and its kind."""
    if error is None:
        return 0, ""
    if isinstance(error, KeyboardInterrupt):
        return InterruptedRunError.exit_status, kind_of(error)
    status = error.exit_status if isinstance(error, LakesweepError) else LakesweepError.exit_status
    return status, kind_of(error)
