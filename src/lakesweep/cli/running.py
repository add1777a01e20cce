"""What commands that run share: Spark started when needed, progress, the record printed at the end."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, cast

from lakesweep.cli.pages import check_page_files, lakefs_place, write_pages
from lakesweep.cli.render import print_json, print_text
from lakesweep.errors import ConfigError, LakesweepError, OutputError, foreign_errors_as_ours
from lakesweep.metrics.watched import current_run

if TYPE_CHECKING:
    from lakesweep.collector.lakefs.context import RunContext
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.engine.tasks import Engine
    from lakesweep.progress import Display
    from lakesweep.report.html.beside import RunPlace
    from lakesweep.settings.values import OutputSettings, Settings, SparkSettings

__all__ = [
    *("NESSIE", "PendingRun", "failure_shown", "jvm_started", "may_work_here", "on_spark"),
    *(
        "opened_run",
        "pending_nessie_run",
        "progress_display",
        "run_and_show",
    ),
    *("show_record", "show_run", "start_engine"),
]

logger = logging.getLogger(__name__)

NESSIE = "nessie"  # what a run on a live set collects, in its record

# Until Spark has done the first jobs of a run, about so much of its work is done by one core.
_SECONDS_HERE = 4.0

_P = ParamSpec("_P")


@dataclass(slots=True)
class PendingRun:
    """What is known of a run before it has a record. Who runs it fills in what becomes known."""

    repository: str
    what: str = ""
    flow: str = ""
    mark_id: str = ""
    phases: Phases | None = None
    place_of: Callable[[str], RunPlace | None] | None = None  # by run id, once the store is known
    not_done: str = (
        "Nothing more was done after it, and `lakesweep runs show` says how far the run came."
    )


def pending_nessie_run(live_set_id: str = "") -> PendingRun:
    """A run on a live set; a new one gets its id when it is marked."""
    not_done = "Nothing more was done after it."
    return PendingRun("live set", what=NESSIE, mark_id=live_set_id, not_done=not_done)


def on_spark(command: Callable[_P, None]) -> Callable[_P, None]:
    """Start the JVM before the command. It starts while the command imports modules and asks the server."""

    @functools.wraps(command)
    def run(*words: _P.args, **named: _P.kwargs) -> None:
        with jvm_started(cast("Settings", named["settings"]).spark):
            command(*words, **named)

    return run


@contextmanager
def jvm_started(spark: SparkSettings) -> Iterator[None]:
    """A JVM that starts beside the work in the block; none for a Spark Connect server."""
    from lakesweep.engine.jvm import jvm_ahead

    with nullcontext() if spark.remote is not None else jvm_ahead(spark.master, spark.conf):
        yield


def run_and_show(
    settings: Settings, pending: PendingRun, work: Callable[[RunContext], RunRecord]
) -> None:
    """Run on a repository and print the record, also that of a run that fails: the error is raised again after it."""
    from lakesweep.collector.lakefs.opening import open_run

    check_page_files(settings.output)
    display = progress_display(settings.output)
    with (
        failure_shown(settings.output, pending),
        _engine(settings, pending) as engine,
        open_run(settings, pending.repository, engine, display) as context,
    ):
        pending.phases = current_run().phases = context.resources.phases
        pending.place_of = partial(lakefs_place, context.store)
        record = work(context)
    show_run(settings.output, record, pending)


def _engine(settings: Settings, pending: PendingRun) -> AbstractContextManager[Engine]:
    """Spark; and this process for small work that tells its cost, where no master is named."""
    from lakesweep.engine.here_first import HereFirst
    from lakesweep.engine.late import LateEngine

    def start() -> Engine:
        return start_engine(settings, pending.phases)

    def on_tasks(done: int, total: int) -> None:
        if pending.phases is not None and settings.output.show_progress:
            pending.phases.show_tasks(done, total)

    if not may_work_here(settings.spark):
        return LateEngine(start)
    return HereFirst(start, _SECONDS_HERE, on_tasks, takes_unknown=False)


def may_work_here(spark: SparkSettings) -> bool:
    """Whether small work is done in this process: no master is named, and no JVM is there that lacks this process's mark."""
    from lakesweep.engine.pyspark_internals import has_gateway

    is_named = spark.remote or spark.master or spark.conf.get("spark.master")
    return not is_named and not has_gateway()


@contextmanager
def failure_shown(output: OutputSettings, pending: PendingRun) -> Iterator[None]:
    """Print what is known of a run that fails in the block, or is stopped there; as text only where it has numbers."""
    from lakesweep.collector.unfinished import unfinished_record

    started_at = datetime.now(UTC)
    try:
        with foreign_errors_as_ours(pending.not_done):
            yield
    except (LakesweepError, KeyboardInterrupt) as error:
        record = unfinished_record(
            pending.repository,
            error,
            phases=pending.phases,
            started_at=started_at,
            finished_at=datetime.now(UTC),
            what=pending.what,
            flow=pending.flow,
            mark_id=pending.mark_id,
        )
        current_run().record = record
        has_begun = record.run_id if record.what == NESSIE else any(record.objects.values())
        place = pending.place_of(record.run_id) if pending.place_of is not None else None
        write_pages(output, record, place)
        if output.output == "json" or has_begun:
            _show_beside(error, output, record)
        raise


def _show_beside(error: BaseException, output: OutputSettings, record: RunRecord) -> None:
    """The record of a run that failed. Where it can't be printed, what ended the run matters more."""
    try:
        show_record(output, record)
    except OutputError as unwritten:
        logger.warning("%s", unwritten.message)


def show_run(output: OutputSettings, record: RunRecord, pending: PendingRun) -> None:
    """Print the record of a run that has ended, and write its page."""
    place = pending.place_of(record.run_id) if pending.place_of is not None else None
    write_pages(output, record, place)
    show_record(output, record)


@contextmanager
def opened_run(settings: Settings, repo: str) -> Iterator[RunContext]:
    """The context of commands that read or remove little; Spark starts only if it is needed."""
    from lakesweep.collector.lakefs.opening import open_run
    from lakesweep.engine.late import LateEngine

    engine = LateEngine(lambda: start_engine(settings))
    with open_run(settings, repo, engine) as context:
        yield context


def start_engine(settings: Settings, phases: Phases | None = None) -> Engine:
    """A Spark engine, as the settings describe it."""
    try:
        from lakesweep.engine.session import build_session
        from lakesweep.engine.spark import SparkEngine
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pandas"):
            raise
        raise ConfigError(
            f"This needs Spark, and {error.name} is not installed. Nothing was touched. Run `pip install "
            "'lakesweep[spark]'`, or on a cluster use its own Python.",
            kind="no-spark",
        ) from error
    session = build_session(
        master=settings.spark.master, remote=settings.spark.remote, conf=settings.spark.conf
    )
    on_tasks = phases.show_tasks if phases is not None and settings.output.show_progress else None
    return SparkEngine(session, on_tasks=on_tasks)


def show_record(output: OutputSettings, record: RunRecord) -> None:
    """The result on stdout."""
    from lakesweep.report.nessie_runs import nessie_run_text
    from lakesweep.report.text import run_text

    current_run().record = record
    if output.output == "json":
        print_json(record.as_json())
    else:
        print_text(nessie_run_text(record) if record.what == NESSIE else run_text(record))


def progress_display(output: OutputSettings) -> Display | None:
    """Where progress is shown; nowhere with `--no-progress`."""
    if not output.show_progress:
        return None
    from lakesweep.progress.displays import fitting_display

    file = Path(output.progress_file) if output.progress_file else None
    return fitting_display(current_run().kind, may_draw=True, file=file)
