"""How old a file must be to go: by the mark's own time, with a margin where its clock is not known."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSet, MarkFacts
from lakesweep.runs.nessie.requests import ExpireRequest

# A set that nessie-gc marked has its times in an unknown zone: they may be so far off.
FOREIGN_CLOCK = timedelta(hours=14)


def newest_to_go(
    live_set: LiveSet, facts: MarkFacts | None, request: ExpireRequest
) -> tuple[datetime, list[str]]:
    """The time up to which (inclusive) a modified file may go, and what there is to say about it."""
    asked = request.max_file_modification
    if asked is None:
        margin = request.grace if facts is not None else request.grace + FOREIGN_CLOCK
        return live_set.created - margin, []
    if asked > live_set.created:
        return live_set.created, [
            f"--max-file-modification {format_time(asked)} is later than the mark ({format_time(live_set.created)}), which "
            "knows nothing of files written after it: those are kept"
        ]
    return asked, []


def newest_recorded(live_set: LiveSet, facts: MarkFacts | None) -> datetime:
    """No file newer than the mark can be on an honest list of deferred files."""
    return live_set.created if facts is not None else live_set.created + FOREIGN_CLOCK


def earliest_mark(live_set: LiveSet) -> datetime:
    """When a mark whose zone nobody knows may have begun."""
    return live_set.created - FOREIGN_CLOCK
