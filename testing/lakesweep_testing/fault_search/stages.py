"""Where faults are injected: a small repository or catalog with something of every kind, and one run on it."""

from __future__ import annotations

from typing import Protocol

from lakesweep.collector.record import RunRecord
from lakesweep_testing.fault_search.troubles import Fault, Operation, Troubles

__all__ = ["Stage"]


class Stage(Protocol):
    """A run that can be made again and again from the same state."""

    @property
    def name(self) -> str:
        """The catalog and the run."""

    def troubles(self, fault: Fault | None = None, at: int = -1) -> Troubles:
        """What one run meets."""

    def rewind(self) -> None:
        """Everything as it was before the run."""

    def act(self, troubles: Troubles) -> RunRecord | None:
        """Do the run through the trouble; its record, where there is one."""

    def may_go_unseen(self, operation: Operation) -> bool:
        """Whether nobody can notice that such an answer leaves something out, and garbage alone stays for that."""

    def deleted(self) -> set[str]:
        """The names of garbage that the run has deleted."""

    def loss(self) -> str:
        """What should be there and is not, or is not the same, in words; empty when all is there."""

    def wrong(self, record: RunRecord | None) -> str:
        """What a run that ended well did not do, or does not tell as it is; empty when all is right."""

    def ledger_lies(self) -> str:
        """What is on record as deleted and is there; empty when the ledger tells the truth."""

    def recover(self) -> str:
        """With the trouble over, do what a user would; what is still not done then."""

    def close(self) -> None:
        """End it."""
