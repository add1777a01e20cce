"""lakesweep from Python: for notebooks, Airflow and Databricks. Same values and same records as the command line.

from lakesweep import collect
record = collect(spark, "example-repo", what="committed", keep_tags=True)

Options are the settings by their names (docs/reference/settings.md); what is left out comes from the environment, the
session's Spark properties and lakectl's configuration, as on the command line. Errors are those of `lakesweep.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict, Unpack

from lakesweep.errors import foreign_errors_as_ours
from lakesweep.runs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.runs.opening import mark_request, named_mark, open_run, outside_target, sweep_request
from lakesweep.runs.saving import run_backup, run_restore
from lakesweep.settings.load import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesweep.runs.context import RunContext
    from lakesweep.runs.record import RunRecord
    from lakesweep.settings.values import Settings

__all__ = ["backup", "collect", "mark", "restore", "resume", "sweep"]


class Access(TypedDict, total=False):
    """Where the server and the stores are; values are written as on the command line."""

    config: str
    endpoint_url: str
    access_key_id: str
    secret_access_key: str
    namespace_root: str
    no_lease: str
    storage_option: Mapping[str, str]


class MarkOptions(Access, total=False):
    """What a mark looks for."""

    what: str
    run: str
    mark_id: str
    min_age: str
    unsafe_min_age: str
    keep_ref: Sequence[str]
    keep_tags: bool
    now: str


class SweepOptions(Access, total=False):
    """What a sweep may do."""

    max_delete_share: float
    confirm: str
    backup_to: str
    dry_run: bool


class CollectOptions(MarkOptions, SweepOptions, total=False):
    """Both."""


def collect(
    spark: SparkSession, repo: str, region: str | None = None, **options: Unpack[CollectOptions]
) -> RunRecord:
    """Mark, plan, sweep. `spark.hadoop.lakefs.gc.do_mark`, `do_sweep` and `mark_id` of the session are honoured."""
    settings = _settings(spark, options, region)
    marking, sweeping = mark_request(settings, repo), sweep_request(settings)
    with _opened(spark, repo, settings) as context:
        if not settings.collect.do_mark:
            return run_sweep(context, named_mark(settings), sweeping)
        if not settings.collect.do_sweep:
            return run_mark(context, marking)
        return run_gc(context, marking, sweeping)


def mark(
    spark: SparkSession, repo: str, region: str | None = None, **options: Unpack[MarkOptions]
) -> RunRecord:
    """Find the garbage and write the plan; delete nothing."""
    settings = _settings(spark, options, region)
    request = mark_request(settings, repo)
    with _opened(spark, repo, settings) as context:
        return run_mark(context, request)


def sweep(
    spark: SparkSession, repo: str, mark_id: str, **options: Unpack[SweepOptions]
) -> RunRecord:
    """Delete what an earlier mark planned and is garbage still; `mark_id` may be an older client's folder."""
    return _run(spark, repo, options, lambda c, s: run_sweep(c, mark_id, sweep_request(s)))


def resume(
    spark: SparkSession, repo: str, run_id: str, **options: Unpack[SweepOptions]
) -> RunRecord:
    """Go on with a sweep that was interrupted or that left keys."""
    return _run(spark, repo, options, lambda c, s: run_resume(c, run_id, sweep_request(s)))


def backup(
    spark: SparkSession, repo: str, mark_id: str, to: str, **options: Unpack[Access]
) -> RunRecord:
    """Copy what a mark names to a location outside the namespace; every copy is verified."""
    return _run(spark, repo, options, lambda c, s: run_backup(c, mark_id, outside_target(s, to)))


def restore(
    spark: SparkSession,
    repo: str,
    mark_id: str,
    source: str,
    addresses: Collection[str] = (),
    **options: Unpack[Access],
) -> RunRecord:
    """Put what a mark names, or only these addresses, back from a backup; every copy is verified."""
    return _run(
        spark,
        repo,
        options,
        lambda c, s: run_restore(c, mark_id, outside_target(s, source), addresses),
    )


def _run(
    spark: SparkSession,
    repo: str,
    options: Access,
    work: Callable[[RunContext, Settings], RunRecord],
) -> RunRecord:
    settings = _settings(spark, options, None)
    with _opened(spark, repo, settings) as context:
        return work(context, settings)


def _settings(spark: SparkSession, options: Access, region: str | None) -> Settings:
    from lakesweep.engine.session import session_properties

    return load_settings(options, spark_properties=session_properties(spark), region=region)


@contextmanager
def _opened(spark: SparkSession, repo: str, settings: Settings) -> Iterator[RunContext]:
    from lakesweep.engine.spark import SparkEngine

    with (
        foreign_errors_as_ours("Nothing more was done after it."),
        open_run(settings, repo, SparkEngine(spark)) as context,
    ):
        yield context
