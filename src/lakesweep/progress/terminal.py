"""Progress on a terminal: a line for each phase that is done, and below them the phase under way and the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from lakesweep.progress.human import human_seconds
from lakesweep.progress.snapshot import PhaseSnapshot, ProgressSnapshot

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["TerminalSink"]

_BAR = 24


class TerminalSink:
    """Draws on stderr, or on another stream that counts as a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self._console = Console(
            file=stream,
            stderr=stream is None,
            force_terminal=None if stream is None else True,
            highlight=False,
            markup=False,
        )
        self._live: Live | None = None
        self._printed: set[int] = set()

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Print what has ended since the last time; draw what is under way in place."""
        from rich.live import Live
        from rich.text import Text

        for number, phase in enumerate(snapshot.phases):
            if not phase.is_running and number not in self._printed:
                self._printed.add(number)
                self._console.print(Text(f"{phase} ({phase.seconds:.1f} s)", no_wrap=True))
        if snapshot.running is None:
            if self._live is not None:
                self._live.stop()
                self._live = None
            return
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start()
        lines = f"{_drawn(snapshot.running)}\n{_bar(snapshot.share)} {snapshot}"
        self._live.update(Text(lines, no_wrap=True, overflow="ellipsis"), refresh=True)


def _drawn(phase: PhaseSnapshot) -> str:
    elapsed = f" ({human_seconds(phase.seconds)})"
    return f"{_bar(phase.share)} {phase}{elapsed}"


def _bar(share: float | None) -> str:
    filled = round((share or 0.0) * _BAR)
    return "━" * filled + "┄" * (_BAR - filled)
