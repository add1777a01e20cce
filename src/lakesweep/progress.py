"""How a run tells of its progress. Library code is handed a `Progress` and never prints.

with progress.phase("list", unit="objects") as phase:
    for batch in batches:
        phase.advance(len(batch), batch_bytes)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBars
    from rich.progress import TaskID

__all__ = ["LogProgress", "Phase", "Progress", "RichProgress", "SilentProgress", "human_bytes"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Phase:
    """One step of a run under way, counted in `unit`. `seconds` is the time so far, and final at its end."""

    name: str
    unit: str = "objects"
    total: int | None = None
    items: int = 0
    size_bytes: int = 0
    on_change: Callable[[], None] = field(default=lambda: None, repr=False)
    _began: float = field(default_factory=time.monotonic, repr=False)
    _ended: float | None = field(default=None, repr=False)

    def advance(self, items: int = 1, size_bytes: int = 0) -> None:
        """So many more are done."""
        self.items += items
        self.size_bytes += size_bytes
        self.on_change()

    def expect(self, total: int) -> None:
        """How many there will be, as soon as that is known."""
        self.total = total
        self.on_change()

    def end(self) -> None:
        self._ended = time.monotonic()
        self.on_change()

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._began

    def __str__(self) -> str:
        size = f" ({human_bytes(self.size_bytes)})" if self.size_bytes else ""
        rate = f", {self.items / self.seconds:,.0f}/s" if self.items and self.seconds > 0 else ""
        return f"{self.name}: {self.items:,} {self.unit}{size} in {self.seconds:.1f} s{rate}"


class Progress(Protocol):
    """Where phases are told to."""

    def phase(
        self, name: str, *, unit: str = "objects", total: int | None = None
    ) -> AbstractContextManager[Phase]:
        """A phase that ends with the block, also when the block fails."""
        ...


class SilentProgress:
    """Tells nobody."""

    @contextmanager
    def phase(
        self, name: str, *, unit: str = "objects", total: int | None = None
    ) -> Iterator[Phase]:
        phase = Phase(name, unit, total)
        try:
            yield phase
        finally:
            phase.end()


class LogProgress:
    """One log line for each phase that came to its end. For logs, and where stderr is no terminal."""

    @contextmanager
    def phase(
        self, name: str, *, unit: str = "objects", total: int | None = None
    ) -> Iterator[Phase]:
        phase = Phase(name, unit, total)
        try:
            yield phase
        except BaseException:
            phase.end()
            logger.info("%s: stopped after %s %s", name, f"{phase.items:,}", unit)
            raise
        phase.end()
        logger.info("%s", phase)


class RichProgress:
    """Bars on a terminal: what, how many, how fast, how long to go."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bars: RichBars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream, stderr=stream is None),
        )
        self._running = 0

    @contextmanager
    def phase(
        self, name: str, *, unit: str = "objects", total: int | None = None
    ) -> Iterator[Phase]:
        if self._running == 0:
            self._bars.start()
        self._running += 1
        bar = self._bars.add_task(name, total=total, count="")
        phase = Phase(name, unit, total)
        phase.on_change = lambda: self._show(bar, phase)
        try:
            yield phase
            phase.end()
            if phase.total is None:
                phase.expect(phase.items)
        finally:
            self._bars.stop_task(bar)
            self._running -= 1
            if self._running == 0:
                self._bars.stop()

    def _show(self, bar: TaskID, phase: Phase) -> None:
        size = f" {human_bytes(phase.size_bytes)}" if phase.size_bytes else ""
        rate = f" {phase.items / phase.seconds:,.0f}/s" if phase.seconds > 0 else ""
        count = f"{phase.items:,} {phase.unit}{size}{rate}"
        self._bars.update(bar, completed=phase.items, total=phase.total, count=count)


def human_bytes(count: int) -> str:
    """`0 B`, `1.5 KiB`, `3.2 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            return f"{count} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")
