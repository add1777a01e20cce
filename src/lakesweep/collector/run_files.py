"""Where a run keeps its files, and the ids it goes by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NewType

RunId = NewType("RunId", str)
MarkId = NewType("MarkId", str)


class RunFiles(ABC):
    """The files of one run, relative to our own folder. They have the same names whatever the catalog."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The folder of the run."""

    @property
    def record(self) -> str:
        return f"{self.root}record.json"

    @property
    def summary(self) -> str:
        """Sums over the garbage that the run found, for reports."""
        return f"{self.root}summary.json"

    @property
    def page(self) -> str:
        """The run as an HTML page."""
        return f"{self.root}report.html"

    @property
    def plan(self) -> str:
        return f"{self.root}plan.json"

    @property
    def listing(self) -> str:
        return f"{self.root}listing/"

    @property
    def verdicts(self) -> str:
        return f"{self.root}verdicts/"

    @property
    def ledger(self) -> str:
        return f"{self.root}ledger/"

    @property
    def gone(self) -> str:
        return f"{self.root}gone/"
