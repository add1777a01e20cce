"""What commands that touch the lake share: Spark started when needed, the record printed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.render import print_json, print_text
from lakesweep.cli.running import shown_bars, start_engine
from lakesweep.errors import LakesweepError, foreign_errors_as_ours

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.domain.location import Location
    from lakesweep.engine.tasks import Engine
    from lakesweep.settings.values import OutputSettings, Settings

__all__ = ["Begun", "failure_shown", "opened_context", "run_seconds", "show_result"]


@contextmanager
def opened_context(
    settings: Settings, live_sets: LiveSetStore, work: Location, collected: Location | None = None
) -> Iterator[NessieContext]:
    """Everything that a run on a live set needs; `collected` is where the record of collected files lies."""
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.phases import Phases

    phases = Phases("nessie", shown_bars(settings.output))
    with _opened_engine(settings, phases) as engine:
        yield NessieContext(
            live_sets=live_sets,
            engine=engine,
            storage=settings.storage,
            work=work,
            phases=phases,
            collected=collected,
        )


@contextmanager
def _opened_engine(settings: Settings, phases: Phases) -> Iterator[Engine]:
    """Spark where a master is named; else this process, until there is more to do than a start of Spark is worth."""
    from lakesweep.engine.here_first import HereFirst
    from lakesweep.engine.jvm import has_gateway, jvm_ahead
    from lakesweep.engine.late import LateEngine

    spark = settings.spark
    is_named = spark.remote or spark.master or spark.conf.get("spark.master")

    def start() -> Engine:
        if spark.remote is not None:
            return start_engine(settings, phases)
        with jvm_ahead(spark.master, spark.conf):
            return start_engine(settings, phases)

    if is_named or has_gateway():
        with LateEngine(start) as late:
            yield late
    else:
        with HereFirst(start) as here:
            yield here


@dataclass(slots=True)
class Begun:
    """What is known of a run that may fail; its command fills in what it comes to know."""

    live_set_id: str = ""
    phases: Phases | None = None


@contextmanager
def failure_shown(output: OutputSettings, live_set_id: str = "") -> Iterator[Begun]:
    """Print the record of a run that fails in the block; as text only where it came far enough to have numbers."""
    from lakesweep.collector.unfinished import unfinished_record

    begun = Begun(live_set_id)
    started_at = datetime.now(UTC)
    try:
        with foreign_errors_as_ours("Nothing more was done after it."):
            yield begun
    except LakesweepError as error:
        record = unfinished_record(
            "live set",
            error,
            phases=begun.phases,
            started_at=started_at,
            finished_at=datetime.now(UTC),
            what="nessie",
            mark_id=begun.live_set_id,
        )
        if output.output == "json" or record.run_id:
            _show(output, record)
        raise


def show_result(output: OutputSettings, record: RunRecord, result_line: Callable[[], str]) -> None:
    """Print the record and, for people and scripts that read text, nessie-gc's own line."""
    line = result_line() if output.output == "text" else ""
    _show(output, record)
    if line:
        print_text(f"\n{line}")


def run_seconds(record: RunRecord) -> timedelta:
    """How long the run took."""
    return (record.finished_at or record.started_at) - record.started_at


def _show(output: OutputSettings, record: RunRecord) -> None:
    if output.output == "json":
        print_json(record.as_json())
        return
    from lakesweep.report.nessie_runs import nessie_run_text

    print_text(nessie_run_text(record))
