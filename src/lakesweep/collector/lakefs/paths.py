"""Where a run's files lie, relative to the storage namespace. The seeds' paths are kept; ours stand in one folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesweep.collector.run_files import MarkId, RunFiles, RunId
from lakesweep.errors import ConfigError

GC = "_lakefs/retention/gc/"
OWN = f"{GC}lakesweep/"
RUNS = f"{OWN}runs/"
MARKS = f"{OWN}marks/"
EVENTS = f"{OWN}events/"
REPORTS = f"{OWN}reports/"  # of tasks, while they work
RANGE_CACHE = f"{OWN}ranges/"
METARANGE_CACHE = f"{OWN}metaranges/"
LATEST_WHAT_IF = f"{OWN}what-if/latest.json"

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def parse_mark_id(text: str) -> MarkId:
    """A mark id from a user: letters, digits, `-` and `_`."""
    if not _ID.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a mark id: use letters, digits, '-' and '_', at most 128. Nothing was touched.",
            kind="bad-mark-id",
        )
    return MarkId(text)


def parse_run_id(text: str) -> RunId:
    """A run id from a user: it becomes part of paths, so it may hold nothing that leads elsewhere."""
    if not _ID.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a run id: letters, digits, '-' and '_'. Nothing was touched. "
            "`lakesweep runs list` shows the runs.",
            kind="bad-run-id",
        )
    return RunId(text)


def mark_folder(mark_id: MarkId) -> str:
    """The folder that holds all that a sweep of this mark may delete."""
    return f"{GC}addresses/mark_id={mark_id}/"


def mark_record(mark_id: MarkId) -> str:
    """Which run made a mark."""
    return f"{MARKS}{mark_id}.json"


def uncommitted_folder(run_id: RunId) -> str:
    """The server's list of uncommitted objects, and beside it the run's report."""
    return f"{GC}uncommitted/{run_id}/"


@dataclass(frozen=True, slots=True)
class RunFolder(RunFiles):
    """The files of one run."""

    run_id: RunId

    @property
    def root(self) -> str:
        return f"{RUNS}{self.run_id}/"

    @property
    def saved(self) -> str:
        return f"{self.root}saved.json"

    @property
    def expired_ranges(self) -> str:
        return f"{self.root}expired-ranges.parquet"

    @property
    def report(self) -> str:
        return f"{uncommitted_folder(self.run_id)}summary.json"


def events_folder(order: int, kind: str, label: str) -> str:
    """A folder of events: `order` (milliseconds) says which of two events about one address came last."""
    return f"{EVENTS}{order:015d}-{kind}-{label}/"
