"""`lakesweep mark`: find the garbage and write the plan; delete nothing."""

from __future__ import annotations

from lakesweep.cli.options import Region, Repo, with_settings
from lakesweep.cli.running import PendingRun, on_spark, run_and_show
from lakesweep.settings.guards import refuse_switched_off
from lakesweep.settings.values import Settings

__all__ = ["mark"]


@with_settings("server", "storage", "collect", "spark", "pages", "output", "metrics")
@on_spark
def mark(repo: Repo, region: Region = None, *, settings: Settings) -> None:
    """Find the garbage of a repository, and delete nothing.

    What a sweep may delete is written down: the mark. It lies in _lakefs/retention/gc/addresses/mark_id=ID/ of the storage namespace, as Parquet.
    """
    from lakesweep.collector.lakefs.collect import run_mark
    from lakesweep.collector.lakefs.opening import mark_request

    refuse_switched_off(settings.collect, mark=True)
    request = mark_request(settings, repo)
    pending = PendingRun(repo, what=request.what.value, mark_id=request.mark_id or "")
    run_and_show(settings, pending, lambda context: run_mark(context, request))
