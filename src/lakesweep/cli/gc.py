"""`lakesweep gc`: mark, plan, sweep."""

from __future__ import annotations

from lakesweep.cli.options import Region, Repo, with_settings
from lakesweep.cli.running import PendingRun, on_spark, run_and_show
from lakesweep.settings.values import Settings

__all__ = ["gc"]


@with_settings("server", "storage", "collect", "sweep", "spark", "pages", "output", "metrics")
@on_spark
def gc(repo: Repo, region: Region = None, *, settings: Settings) -> None:
    """Find the garbage of a repository, and delete it.

    What is live is read again before anything is deleted, and what came back to life is kept. A plan of more than
    1,000 objects or 10 GiB that would delete more than --max-delete-share stops and prints its id. The properties
    spark.hadoop.lakefs.gc.do_mark, do_sweep and mark_id are honoured.
    """
    from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
    from lakesweep.collector.lakefs.opening import mark_request, named_mark, sweep_request

    collect = settings.collect
    marking = mark_request(settings, repo)
    sweeping = sweep_request(settings, repo)
    pending = PendingRun(repo, what=collect.what, mark_id=collect.mark_id or "")
    if not collect.do_mark:
        mark = named_mark(settings)
        run_and_show(settings, pending, lambda context: run_sweep(context, mark, sweeping))
    elif not collect.do_sweep:
        run_and_show(settings, pending, lambda context: run_mark(context, marking))
    else:
        run_and_show(settings, pending, lambda context: run_gc(context, marking, sweeping))
