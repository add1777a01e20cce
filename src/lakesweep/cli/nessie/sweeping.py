"""What commands that touch the lake share: Spark started when needed, the record printed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.render import print_json, print_text
from lakesweep.cli.running import shown_bars, start_engine
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import LakesweepError

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.domain.location import Location
    from lakesweep.runs.nessie.context import NessieContext
    from lakesweep.runs.phases import Phases
    from lakesweep.runs.record import RunRecord
    from lakesweep.settings.values import OutputSettings, Settings

__all__ = ["opened_context", "run_and_show", "run_seconds"]


@contextmanager
def opened_context(
    settings: Settings, live_sets: LiveSetStore, work: Location
) -> Iterator[NessieContext]:
    """Everything that a run on a live set needs."""
    from lakesweep.engine.late import LateEngine
    from lakesweep.runs.nessie.context import NessieContext
    from lakesweep.runs.phases import Phases

    phases = Phases("nessie", shown_bars(settings.output))
    with LateEngine(lambda: start_engine(settings, phases)) as engine:
        yield NessieContext(
            live_sets=live_sets, engine=engine, storage=settings.storage, work=work, phases=phases
        )


def run_and_show(
    output: OutputSettings,
    phases: Phases,
    live_set_id: LiveSetId,
    work: Callable[[], RunRecord],
    result_line: Callable[[RunRecord], str],
) -> None:
    """Run and print the record, also that of a run that fails: the error is raised again after it."""
    from lakesweep.runs.unfinished import unfinished_record

    started_at = datetime.now(UTC)
    try:
        record = work()
    except LakesweepError as error:
        unfinished = unfinished_record(
            "live set",
            error,
            phases=phases,
            started_at=started_at,
            finished_at=datetime.now(UTC),
            what="nessie",
            mark_id=live_set_id,
        )
        if output.output == "json" or unfinished.run_id:
            _show(output, unfinished)
        raise
    _show(output, record)
    if output.output == "text":
        print_text(f"\n{result_line(record)}")


def run_seconds(record: RunRecord) -> timedelta:
    """How long the run took."""
    return (record.finished_at or record.started_at) - record.started_at


def _show(output: OutputSettings, record: RunRecord) -> None:
    if output.output == "json":
        print_json(record.as_json())
        return
    from lakesweep.report.nessie_runs import nessie_run_text

    print_text(nessie_run_text(record))
