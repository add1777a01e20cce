"""What commands that run on a repository share: Spark started when needed, progress, the record printed at the end."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ParamSpec, cast

from lakesweep.cli.render import print_json, print_text
from lakesweep.errors import ConfigError, LakesweepError, foreign_errors_as_ours

if TYPE_CHECKING:
    from lakesweep.collector.lakefs.context import RunContext
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.engine.tasks import Engine
    from lakesweep.progress import Progress
    from lakesweep.settings.values import OutputSettings, Settings

__all__ = [
    "Asked",
    "on_spark",
    "opened_run",
    "refuse_switched_off",
    "run_and_show",
    "show_record",
    "show_unfinished",
    "shown_bars",
    "start_engine",
]

_P = ParamSpec("_P")
_NOT_DONE = "Nothing more was done after it, and `lakesweep runs show` says how far the run came."


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a run before it begins, for the record of one that fails at once."""

    repository: str
    what: str = ""
    flow: str = ""
    mark_id: str = ""


def on_spark(command: Callable[_P, None]) -> Callable[_P, None]:
    """Start the JVM before the command, which loads the rest of us and asks the server meanwhile."""

    @functools.wraps(command)
    def run(*words: _P.args, **named: _P.kwargs) -> None:
        from lakesweep.engine.jvm import jvm_ahead

        spark = cast("Settings", named["settings"]).spark
        if spark.remote is not None:
            return command(*words, **named)
        with jvm_ahead(spark.master, spark.conf):
            return command(*words, **named)

    return run


def run_and_show(settings: Settings, asked: Asked, work: Callable[[RunContext], RunRecord]) -> None:
    """Run on a repository and print the record, also that of a run that fails: the error is raised again after it."""
    from lakesweep.collector.lakefs.opening import open_run
    from lakesweep.engine.late import LateEngine

    started_at = datetime.now(UTC)
    phases: Phases | None = None
    try:
        with (
            foreign_errors_as_ours(_NOT_DONE),
            LateEngine(lambda: start_engine(settings, phases)) as engine,
            open_run(settings, asked.repository, engine, shown_bars(settings.output)) as context,
        ):
            phases = context.phases
            record = work(context)
    except LakesweepError as error:
        show_unfinished(settings.output, asked, error, phases, started_at)
        raise
    show_record(settings.output, record)


@contextmanager
def opened_run(settings: Settings, repo: str) -> Iterator[RunContext]:
    """A repository for commands that ask or remove little; Spark starts only if it is needed."""
    from lakesweep.collector.lakefs.opening import open_run
    from lakesweep.engine.late import LateEngine

    engine = LateEngine(lambda: start_engine(settings))
    with open_run(settings, repo, engine) as context:
        yield context


def start_engine(settings: Settings, phases: Phases | None = None) -> Engine:
    """Spark, as the settings say."""
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
    if output.output == "json":
        print_json(record.as_json())
        return
    from lakesweep.report.text import run_text

    print_text(run_text(record))


def show_unfinished(
    output: OutputSettings,
    asked: Asked,
    error: LakesweepError,
    phases: Phases | None,
    started_at: datetime,
) -> None:
    """What is known of a run that failed; as text only where it came far enough to have numbers."""
    from lakesweep.collector.unfinished import unfinished_record

    record = unfinished_record(
        asked.repository,
        error,
        phases=phases,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        what=asked.what,
        flow=asked.flow,
        mark_id=asked.mark_id,
    )
    if output.output == "json" or any(record.objects.values()):
        show_record(output, record)


def refuse_switched_off(settings: Settings, *, mark: bool = False, sweep: bool = False) -> None:
    """`mark` and `sweep` say what is done; properties that say otherwise can't be meant."""
    for wanted, is_on, name in (
        (mark, settings.collect.do_mark, "do_mark"),
        (sweep, settings.collect.do_sweep, "do_sweep"),
    ):
        if wanted and not is_on:
            raise ConfigError(
                f"`lakesweep {name.removeprefix('do_')}` is asked for, and spark.hadoop.lakefs.gc.{name} is false. "
                "Nothing was touched. Leave one of them out.",
                kind="switched-off",
            )


def shown_bars(output: OutputSettings) -> Progress | None:
    """Bars where somebody looks on; None leaves one log line for each phase."""
    if not output.show_progress or not sys.stderr.isatty():
        return None
    from lakesweep.progress import RichProgress

    return RichProgress()
