"""Progress in a notebook: a small table of HTML that is replaced in place. Needs IPython and no widgets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

from lakesweep.progress.human import human_seconds
from lakesweep.progress.snapshot import PhaseSnapshot, ProgressSnapshot

__all__ = ["NotebookSink", "is_notebook", "progress_html"]

_EVERY_SECONDS = 1.0


def is_notebook() -> bool:
    """Whether we run in a notebook's kernel. IPython is looked at only where it is loaded already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


class NotebookSink:
    """Shows a table below the cell that runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at = clock()
        self._shown: Any = None

    def show(self, snapshot: ProgressSnapshot) -> None:
        """Replace the table, at most once a second and whenever nothing is under way."""
        if self._clock() < self._next_at and snapshot.running is not None:
            return
        from IPython.display import HTML, display

        self._next_at = self._clock() + _EVERY_SECONDS
        picture = HTML(progress_html(snapshot))
        if self._shown is None:
            self._shown = display(picture, display_id=True)
        else:
            self._shown.update(picture)


def progress_html(snapshot: ProgressSnapshot) -> str:
    """The run as an HTML table. Names come from a lake, so they are escaped."""
    rows = "".join(map(_row, snapshot.phases))
    return (
        f'<table class="lakesweep-progress"><caption>{escape(snapshot.repository)}</caption>'
        '<thead><tr><th scope="col">phase</th><th scope="col">done</th><th scope="col">time</th></tr></thead>'
        f"<tbody>{rows}</tbody></table><p>{escape(str(snapshot))}</p>"
    )


def _row(phase: PhaseSnapshot) -> str:
    name, _, said = str(phase).partition(": ")
    share = phase.share
    bar = "" if share is None else f'<progress max="1" value="{share:.3f}"></progress> '
    return (
        f'<tr><th scope="row">{escape(name)}</th><td>{bar}{escape(said)}</td>'
        f"<td>{escape(human_seconds(phase.seconds))}</td></tr>"
    )
