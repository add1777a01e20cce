"""How far a run is: counted in objects and bytes, told to sinks. Display only, no result depends on it."""

from lakesweep.progress.board import Display, PhaseProgress, ProgressBoard
from lakesweep.progress.human import human_bytes, human_count, human_seconds
from lakesweep.progress.snapshot import PhaseSnapshot, ProgressSink, ProgressSnapshot
from lakesweep.progress.task_reports import Counts, advance

__all__ = [
    "Counts",
    "Display",
    "PhaseProgress",
    "PhaseSnapshot",
    "ProgressBoard",
    "ProgressSink",
    "ProgressSnapshot",
    "advance",
    "human_bytes",
    "human_count",
    "human_seconds",
]
