"""How old a file must be to go: by the mark's own time, with a margin where its clock is not known."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSet, MarkFacts

# A set that nessie-gc marked has its times in an unknown zone: they may be so far off.
FOREIGN_CLOCK = timedelta(hours=14)


def newest_to_go(
    live_set: LiveSet, facts: MarkFacts | None, request: ExpireRequest
) -> tuple[datetime, list[str]]:
    """The time up to which (inclusive) a modified file may go, and what there is to say about it."""
    asked, least_age = request.max_file_modification, request.least_age
    newest = live_set.created - least_age
    is_exact = asked is not None and not least_age  # a time takes the place of all margins
    if facts is None and not is_exact:
        newest -= FOREIGN_CLOCK
    if asked is None or asked == newest:
        return newest, []
    if asked < newest:
        return asked, []
    return newest, [
        f"--max-file-modification {format_time(asked)} is later than the mark ({format_time(live_set.created)}) with its "
        f"grace period allows: files written after {format_time(newest)} are kept"
    ]


def newest_recorded(
    live_set: LiveSet, facts: MarkFacts | None, request: ExpireRequest, recorded: datetime | None
) -> datetime:
    """The time up to which (inclusive) a file on a list may go: a list that lakesweep made was judged by the time `recorded`, others by nobody.

    What is asked for now counts before the time that the list was made with.
    """
    newest, _ = newest_to_go(live_set, facts, request)
    if recorded is None or (request.grace, request.max_file_modification) != (None, None):
        return newest
    return max(newest, min(recorded, live_set.created))


def earliest_mark(live_set: LiveSet) -> datetime:
    """When a mark whose zone nobody knows may have begun."""
    return live_set.created - FOREIGN_CLOCK
