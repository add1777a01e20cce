"""`lakesweep restore`: put what a sweep deleted back, from a backup."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.running import PendingRun, on_spark, run_and_show
from lakesweep.settings.values import Settings

__all__ = ["restore"]

_From = Annotated[
    str, typer.Option("--from", metavar="URI", help="The location that the backup was made to.")
]
_Address = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="Only this object, by its address in the mark (data/…); may be repeated.",
    ),
]


@with_settings("server", "storage", "mark_id", "spark", "output", "metrics")
@on_spark
def restore(repo: Repo, source: _From, address: _Address = None, *, settings: Settings) -> None:
    """Copy every object that a mark names back from a backup, under the same address; each copy is verified.

    The objects read again through the server. They are as young as their restoration: a later run may collect them
    again, if they are still garbage by then.
    """
    from lakesweep.collector.lakefs.backup_restore import run_restore
    from lakesweep.collector.lakefs.opening import named_mark, outside_target

    mark, backup = named_mark(settings), outside_target(settings, source)
    pending = PendingRun(repo, flow="restore", mark_id=mark)
    chosen = tuple(address or ())
    run_and_show(settings, pending, lambda context: run_restore(context, mark, backup, chosen))
