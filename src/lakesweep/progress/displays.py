"""Where progress is shown: in a notebook, on a terminal, else in the log."""

from __future__ import annotations

import sys

from lakesweep.progress.board import Display
from lakesweep.progress.earlier_runs import earlier_seconds
from lakesweep.progress.log_lines import LogSink
from lakesweep.progress.notebook import NotebookSink, is_notebook
from lakesweep.progress.terminal import TerminalSink

__all__ = ["fitting_display"]


def fitting_display(run: str, *, may_draw: bool) -> Display:
    """The display that fits where we run. `run` names runs of one kind, by whose last one time left is told."""
    earlier = earlier_seconds(run)
    if is_notebook():
        return Display([NotebookSink(), LogSink()], earlier)
    if may_draw and sys.stderr.isatty():
        return Display([TerminalSink()], earlier, is_terminal=True)
    return Display([LogSink()], earlier)
