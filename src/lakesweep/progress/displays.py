"""Where progress is shown: in a notebook, on a terminal, else in the log."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lakesweep.progress.board import Display
from lakesweep.progress.earlier_runs import earlier_seconds
from lakesweep.progress.file import FileSink
from lakesweep.progress.log_lines import LogSink
from lakesweep.progress.notebook import NotebookSink, is_notebook
from lakesweep.progress.terminal import TerminalSink

__all__ = ["fitting_display"]


def fitting_display(run: str, *, may_draw: bool, file: Path | None = None) -> Display:
    """The display that fits where we run. `run` names runs of one kind, by whose last one time left is told.

    With a file, programs find the progress there as well.
    """
    fitting = _fitting_sinks(earlier_seconds(run), may_draw)
    return fitting if file is None else replace(fitting, sinks=[*fitting.sinks, FileSink(file)])


def _fitting_sinks(earlier: Mapping[str, float], may_draw: bool) -> Display:
    if is_notebook():
        return Display([NotebookSink(), LogSink()], earlier)
    if may_draw and sys.stderr.isatty():
        return Display([TerminalSink()], earlier, is_terminal=True)
    return Display([LogSink()], earlier)
