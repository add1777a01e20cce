"""A mark that fails leaves a record too: what it was asked, how far it came, and why it ended.

Such a record names no plan, and by that a sweep tells it from the record of a finished mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import RunId
from lakesweep.collector.unfinished import unfinished_record
from lakesweep.errors import ConfigError, LakesweepError, foreign_errors_as_ours
from lakesweep.formats.xid import new_xid


@dataclass(slots=True)
class Attempt:
    """A mark under way; its id is the server's once it has given one."""

    run_id: RunId | None = None


@contextmanager
def failure_on_record(
    context: RunContext, request: MarkRequest, started_at: datetime
) -> Iterator[Attempt]:
    """Whatever ends the mark before its time is written down, and raised again."""
    attempt = Attempt()
    # A context may have seen another run, and its record is not that of this one.
    context.phases.saved_record = None
    try:
        with foreign_errors_as_ours("Nothing was deleted."):
            yield attempt
    except ConfigError:
        raise  # what was asked for can't be had, and its message says that nothing was touched
    except (LakesweepError, KeyboardInterrupt) as error:
        run_id = attempt.run_id or RunId(f"mark-{new_xid(started_at)}")
        record = unfinished_record(
            context.name,
            error,
            phases=context.phases,
            started_at=started_at,
            finished_at=context.clock(),
            what=request.what.value,
            flow=request.flow.value,
            mark_id=request.mark_id or "",
        )
        key = RunFolder(run_id).record
        context.resources.save_record_if_possible(key, replace(record, run_id=run_id))
        raise


def refuse_failed(context: RunContext, record: RunRecord) -> None:
    """A sweep needs a mark that came to its end, whatever else of it lies there."""
    if not record.plan_id:
        raise ConfigError(
            f"The mark of run {record.run_id} of {context.name} was not finished ({record.reason}). Nothing was deleted. "
            "Mark again.",
            kind="no-mark",
        )
