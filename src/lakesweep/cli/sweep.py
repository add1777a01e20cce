"""`lakesweep sweep`: delete what an earlier mark planned and is garbage still."""

from __future__ import annotations

from lakesweep.cli.options import Region, Repo, with_settings
from lakesweep.cli.running import PendingRun, on_spark, run_and_show
from lakesweep.settings.guards import refuse_switched_off
from lakesweep.settings.values import Settings

__all__ = ["sweep"]


@with_settings(
    "server", "storage", "mark_id", "unsafe_min_age", "sweep", "spark", "pages", "output", "metrics"
)
@on_spark
def sweep(repo: Repo, region: Region = None, *, settings: Settings) -> None:
    """Delete what an earlier mark planned. What is live is read again first; what came back to life is kept.

    --mark-id names the mark, or the folder of a mark that an older client wrote
    (_lakefs/retention/gc/addresses/run_id=…/).
    """
    from lakesweep.collector.lakefs.collect import run_sweep
    from lakesweep.collector.lakefs.opening import named_mark, sweep_request

    refuse_switched_off(settings.collect, sweep=True)
    named, request = named_mark(settings), sweep_request(settings, repo)
    run_and_show(
        settings,
        PendingRun(repo, mark_id=named),
        lambda context: run_sweep(context, named, request),
    )
