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
    """Copy what a mark names back from a backup.

    Each object gets its old address, and each copy is verified.

    The objects can then be read through the server again. They count as young from now on. A later run collects them
    again, if nothing refers to them by then.
    """
    from lakesweep.collector.lakefs.backup_restore import run_restore
    from lakesweep.collector.lakefs.opening import named_mark, outside_target

    mark, backup = named_mark(settings), outside_target(settings, source)
    pending = PendingRun(repo, flow="restore", mark_id=mark)
    chosen = tuple(address or ())
    run_and_show(settings, pending, lambda context: run_restore(context, mark, backup, chosen))
