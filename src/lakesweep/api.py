"""lakesweep from Python: for notebooks, Airflow and Databricks. Same values and same records as the command line.

from lakesweep import collect
record = collect(spark, "example-repo", what="committed", keep_tags=True)

Options are the settings by their names (docs/reference/settings.md); what is left out comes from the environment, the
session's Spark properties and lakectl's configuration, as on the command line. A name that is no option of the function is
an error before anything is read. What lowers a guard works on the command line only, and here as `LoweredGuards`, which no
dictionary of options can hold. Errors are those of `lakesweep.errors`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypedDict, Unpack

from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.explain.explain import DEFAULT_LIMIT, ExplainRequest, open_source
from lakesweep.collector.lakefs.explain.explain import explain as explain_objects
from lakesweep.collector.lakefs.opening import (
    mark_request,
    named_mark,
    open_run,
    outside_target,
    sweep_request,
    what_if_request,
)
from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, RunFolder
from lakesweep.collector.lakefs.retention_rules import parse_rules
from lakesweep.collector.lakefs.what_if.what_if import run_what_if
from lakesweep.collector.run_files import RunId
from lakesweep.errors import ConfigError, UnknownOptionError, foreign_errors_as_ours
from lakesweep.metrics.watched import current_run, watched_run
from lakesweep.progress.displays import fitting_display
from lakesweep.report.html.beside import RunPlace, write_page
from lakesweep.settings.guards import refuse_switched_off
from lakesweep.settings.lakefs_options import SETTING
from lakesweep.settings.load import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesweep.collector.lakefs.context import RunContext
    from lakesweep.collector.lakefs.explain.explain import Explanations
    from lakesweep.collector.lakefs.what_if.what_if import WhatIf
    from lakesweep.collector.phases import Phases
    from lakesweep.collector.record import RunRecord
    from lakesweep.engine.tasks import Engine
    from lakesweep.settings.values import Settings

__all__ = [
    "LoweredGuards",
    "backup",
    "collect",
    "explain",
    "mark",
    "restore",
    "resume",
    "sweep",
    "what_if",
]


class Access(TypedDict, total=False):
    """Where the server and the stores are; values are written as on the command line."""

    config: str
    endpoint_url: str
    access_key_id: str
    secret_access_key: str
    namespace_root: str
    keep_runs: int
    metrics_file: str
    storage_option: Mapping[str, str]


class MarkOptions(Access, total=False):
    """What a mark looks for."""

    what: str
    run: str
    mark_id: str
    min_age: str
    keep_ref: Sequence[str]
    keep_tags: bool
    now: str
    inventory: str
    max_inventory_age: str


class ExplainOptions(Access, total=False):
    """By which rules objects are judged, as a mark's options say them."""

    min_age: str
    keep_ref: Sequence[str]
    keep_tags: bool


class WhatIfOptions(ExplainOptions, total=False):
    """What a what-if looks for, and by which rules."""

    what: str
    now: str


class SweepOptions(Access, total=False):
    """What a sweep may do."""

    max_delete_share: float
    backup_to: str
    dry_run: bool


class CollectOptions(MarkOptions, SweepOptions, total=False):
    """What a mark looks for, and what its sweep may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredGuards:
    """Guards that a person lowers for one call, as by the flags of the same names on the command line."""

    unsafe_min_age: str | None = None
    """The repository whose objects may go at a `min_age` below the safe one."""
    no_lease: str | None = None
    """The repository for which the caller vouches that no other collector runs."""
    confirm: str | None = None
    """The id of the one plan that may delete more than the share."""
    max_delete_share: float | None = None
    """The share in percent that may go without asking, also above the default."""


def collect(
    spark: SparkSession,
    repo: str,
    region: str | None = None,
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[CollectOptions],
) -> RunRecord:
    """Mark, plan, sweep. `spark.hadoop.lakefs.gc.do_mark`, `do_sweep` and `mark_id` of the session are honoured."""
    settings = _settings(spark, options, CollectOptions, guards, region)
    marking, sweeping = mark_request(settings, repo), sweep_request(settings, repo)
    with _watched(spark, repo, settings, "gc") as context:
        if not settings.collect.do_mark:
            return run_sweep(context, named_mark(settings), sweeping)
        if not settings.collect.do_sweep:
            return run_mark(context, marking)
        return run_gc(context, marking, sweeping)


def mark(
    spark: SparkSession,
    repo: str,
    region: str | None = None,
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[MarkOptions],
) -> RunRecord:
    """Find the garbage and write the plan; delete nothing."""
    settings = _settings(spark, options, MarkOptions, guards, region)
    refuse_switched_off(settings.collect, mark=True)
    request = mark_request(settings, repo)
    with _watched(spark, repo, settings, "mark") as context:
        return run_mark(context, request)


def sweep(
    spark: SparkSession,
    repo: str,
    mark_id: str,
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[SweepOptions],
) -> RunRecord:
    """Delete what an earlier mark planned and is garbage still; `mark_id` may be an older client's folder."""
    settings = _settings(spark, options, SweepOptions, guards)
    refuse_switched_off(settings.collect, sweep=True)
    request = sweep_request(settings, repo)
    with _watched(spark, repo, settings, "sweep") as context:
        return run_sweep(context, mark_id, request)


def resume(
    spark: SparkSession,
    repo: str,
    run_id: str,
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[SweepOptions],
) -> RunRecord:
    """Go on with a sweep that was interrupted or that left keys."""
    settings = _settings(spark, options, SweepOptions, guards)
    refuse_switched_off(settings.collect, sweep=True)
    request = sweep_request(settings, repo)
    with _watched(spark, repo, settings, "resume") as context:
        return run_resume(context, run_id, request)


def backup(
    spark: SparkSession,
    repo: str,
    mark_id: str,
    to: str,
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[Access],
) -> RunRecord:
    """Copy what a mark names to a location outside the namespace; every copy is verified."""
    settings = _settings(spark, options, Access, guards)
    target = outside_target(settings, to)
    with _watched(spark, repo, settings, "backup") as context:
        return run_backup(context, mark_id, target)


def restore(
    spark: SparkSession,
    repo: str,
    mark_id: str,
    source: str,
    addresses: Collection[str] = (),
    *,
    guards: LoweredGuards | None = None,
    **options: Unpack[Access],
) -> RunRecord:
    """Put what a mark names, or only these addresses, back from a backup; every copy is verified."""
    settings = _settings(spark, options, Access, guards)
    target = outside_target(settings, source)
    with _watched(spark, repo, settings, "restore") as context:
        return run_restore(context, mark_id, target, addresses)


def explain(
    repo: str,
    *objects: str,
    spark: SparkSession | None = None,
    mark: str | None = None,
    prefix: str = "",
    limit: int = DEFAULT_LIMIT,
    **options: Unpack[ExplainOptions],
) -> Explanations:
    """Say of objects why they are kept or go, and on which day. Nothing is written or deleted.

    Objects are addresses, `PATH[@REF]` or `lakefs://repo/ref/path`, or those that a mark names. A session is needed for
    hundreds of objects only; without one, all of them are looked for in this process.
    """
    settings = _settings(spark, options, ExplainOptions, None)
    collect = settings.collect
    request = ExplainRequest(
        collect.keep_refs, collect.keep_tags, collect.min_age, mark, prefix, limit
    )
    with (
        foreign_errors_as_ours("Nothing was written or deleted."),
        open_source(settings, repo, _engine(spark)) as source,
    ):
        return explain_objects(source, objects, request)


def what_if(
    spark: SparkSession,
    repo: str,
    rules: Mapping[str, str] | None = None,
    *,
    branches: Sequence[str] = (),
    depth: int = 1,
    price: float | None = None,
    save: bool = True,
    guards: LoweredGuards | None = None,
    **options: Unpack[WhatIfOptions],
) -> WhatIf:
    """Say what any number of days kept would free, and what other rules would. Nothing is deleted.

    `rules` are the JSON texts of other rules, by names that the answer has for them; `branches` those whose own days are
    varied too; `depth` the folders by which paths are grouped; `price` that of a GB and month.
    """
    settings = _settings(spark, options, WhatIfOptions, guards)
    request = replace(
        what_if_request(settings, repo),
        rules=tuple((name, parse_rules(text, name)) for name, text in (rules or {}).items()),
        branches=tuple(branches),
        depth=depth,
        price=price,
        save=save,
    )
    with _opened(spark, repo, settings) as context:
        return run_what_if(context, request)


def _engine(spark: SparkSession | None) -> Engine | None:
    if spark is None:
        return None
    from lakesweep.engine.spark import SparkEngine

    return SparkEngine(spark)


def _settings(
    spark: SparkSession | None,
    options: Access,
    known: type[Access],
    guards: LoweredGuards | None,
    region: str | None = None,
) -> Settings:
    _refuse_unknown(options, known.__annotations__)
    lowered = {} if guards is None else {k: v for k, v in asdict(guards).items() if v is not None}
    flags = {**options, **lowered}
    settings = load_settings(flags, spark_properties=_properties(spark), region=region)
    share, declared = settings.collect.max_delete_share, SETTING["max_delete_share"]
    if declared.lowers_guard(share) and "max_delete_share" not in lowered:
        raise ConfigError(
            f"max_delete_share={share:g} is above the default of {declared.default} % and lowers a guard. Nothing "
            "was touched. Give it as guards=LoweredGuards(max_delete_share=…).",
            kind="lowers-a-guard",
        )
    return settings


def _properties(spark: SparkSession | None) -> Mapping[str, str]:
    if spark is None:
        return {}
    from lakesweep.engine.session import session_properties

    return session_properties(spark)


def _refuse_unknown(options: Access, known: Collection[str]) -> None:
    """A misspelt option would be left out without a word: `dryrun=True` would delete."""
    for name in options:
        if name in known:
            continue
        if name in {guard.name for guard in fields(LoweredGuards)}:
            hint = f"It lowers a guard, so it is given as guards=LoweredGuards({name}=…)."
        else:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(known))}."
        raise UnknownOptionError(
            f"This function has no option {name!r}. Nothing was touched. {hint}"
        )


@contextmanager
def _watched(
    spark: SparkSession, repo: str, settings: Settings, command: str
) -> Iterator[RunContext]:
    """A run that leaves its page when it has ended, and of which metrics tell, as those of a command."""
    metrics_file = settings.output.metrics_file
    with (
        watched_run(command, metrics_file, repository=repo) as run,
        _opened(spark, repo, settings) as context,
    ):
        run.phases = context.resources.phases
        try:
            yield context
        finally:
            run.record = record = context.resources.phases.saved_record
            if record is not None:
                files = RunFolder(RunId(record.run_id))
                write_page(RunPlace(context.resources.store, files, LATEST_WHAT_IF), record)


@contextmanager
def _opened(spark: SparkSession, repo: str, settings: Settings) -> Iterator[RunContext]:
    from lakesweep.engine.spark import SparkEngine

    told: list[Phases] = []  # none before the engine is there

    def on_tasks(done: int, total: int) -> None:
        for phases in told:
            phases.show_tasks(done, total)

    is_shown = settings.output.show_progress
    display = fitting_display(current_run().kind, may_draw=False) if is_shown else None
    engine = SparkEngine(spark, on_tasks if is_shown else None)
    with (
        foreign_errors_as_ours("Nothing more was done after it."),
        open_run(settings, repo, engine, display) as context,
    ):
        told.append(context.resources.phases)
        yield context
