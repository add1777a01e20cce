"""How far a run is at one moment, as plain values, and the protocol of those who show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lakesweep.progress.human import human_bytes, human_count, human_seconds

__all__ = ["PhaseSnapshot", "ProgressSink", "ProgressSnapshot"]


@dataclass(frozen=True, slots=True)
class PhaseSnapshot:
    """One phase of a run. `items` are counted in `unit`; totals are None where nobody knows them."""

    name: str
    unit: str = "objects"
    items: int = 0
    size_bytes: int = 0
    total: int | None = None
    total_bytes: int | None = None
    tasks_done: int = 0
    tasks: int = 0
    seconds: float = 0.0
    is_running: bool = True

    @property
    def share(self) -> float | None:
        """How much of the phase is done, from 0 to 1: by objects, else by tasks; None where neither is known."""
        if not self.is_running:
            return 1.0
        if self.total:
            return min(self.items / self.total, 1.0)
        return min(self.tasks_done / self.tasks, 1.0) if self.tasks else None

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.items / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_rate(self) -> float:
        """Bytes a second."""
        return self.size_bytes / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """About how long the phase goes on, if it goes on as it did; None where nothing tells."""
        share = self.share
        return self.seconds * (1 - share) / share if share else None

    def __str__(self) -> str:
        of = f" of {self.total:,}" if self.total and self.is_running else ""
        said = [human_count(self.items, self.unit).replace(" ", f"{of} ", 1)]
        if self.size_bytes:
            said.append(human_bytes(self.size_bytes))
        if self.items and self.seconds >= 0.1:
            per_second = f"{self.rate:,.0f}/s"
            if self.size_bytes:
                per_second += f", {human_bytes(round(self.bytes_rate))}/s"
            said.append(per_second)
        if self.is_running and self.seconds_left is not None:
            said.append(f"{self.share or 0:.0%}, about {human_seconds(self.seconds_left)} left")
        return f"{self.name}: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """A whole run: its phases in the order in which they began, and about how long it still takes."""

    repository: str
    started_at: datetime
    seconds: float
    phases: tuple[PhaseSnapshot, ...] = ()
    earlier: Mapping[str, float] = field(default_factory=dict)  # seconds of phases, the last time

    @property
    def running(self) -> PhaseSnapshot | None:
        """The innermost phase under way."""
        return next((phase for phase in reversed(self.phases) if phase.is_running), None)

    @property
    def objects(self) -> int:
        """Objects handled by all phases; one that was listed, judged and deleted counts three times."""
        return sum(phase.items for phase in self.phases if phase.unit in ("objects", "files"))

    @property
    def size_bytes(self) -> int:
        """Bytes of the objects handled by all phases."""
        return sum(phase.size_bytes for phase in self.phases)

    @property
    def seconds_left(self) -> float | None:
        """About how long the run goes on, by the last run of its kind; None where that is not known."""
        running = self.running
        if not self.earlier or running is None:
            return None
        names = list(self.earlier)
        if running.name not in self.earlier:
            begun = {phase.name for phase in self.phases}
            to_come = [name for name in names if name not in begun]
        else:
            to_come = names[names.index(running.name) + 1 :]
        left = running.seconds_left
        if left is None:
            left = max(self.earlier.get(running.name, 0.0) - running.seconds, 0.0)
        return left + sum(self.earlier[name] for name in to_come)

    @property
    def share(self) -> float | None:
        """How much of the run is done, by time, from 0 to 1; None where that is not known."""
        left = self.seconds_left
        return None if left is None else self.seconds / max(self.seconds + left, 1e-9)

    def __str__(self) -> str:
        said = f"whole run: {human_seconds(self.seconds)}"
        if self.objects:
            said += f", {human_count(self.objects, 'objects')}"
        if self.size_bytes:
            said += f", {human_bytes(self.size_bytes)}"
        left = self.seconds_left
        return said if left is None else f"{said}, about {human_seconds(left)} left"

    def as_json(self) -> dict[str, object]:
        """Plain JSON values, with what is worked out from them."""
        return {
            "repository": self.repository,
            "started_at": self.started_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "objects": self.objects,
            "bytes": self.size_bytes,
            "share": self.share,
            "seconds_left": self.seconds_left,
            "phases": [
                {
                    "name": phase.name,
                    "unit": phase.unit,
                    "items": phase.items,
                    "bytes": phase.size_bytes,
                    "total": phase.total,
                    "total_bytes": phase.total_bytes,
                    "seconds": round(phase.seconds, 3),
                    "rate": phase.rate,
                    "bytes_rate": phase.bytes_rate,
                    "share": phase.share,
                    "seconds_left": phase.seconds_left,
                    "is_running": phase.is_running,
                }
                for phase in self.phases
            ],
        }


class ProgressSink(Protocol):
    """Somebody who shows progress: a terminal, a log, a notebook, a page."""

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Show this, or not: it comes about twice a second and when a phase begins or ends, from any thread.

        A sink that raises is left out from then on, and the run goes on.
        """
        ...
