"""`lakesweep backup`: copy what a mark names to another place, before it is swept."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.running import PendingRun, on_spark, run_and_show
from lakesweep.settings.values import Settings

__all__ = ["backup"]

_To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="URI",
        help="Where the copies go: a location in any store, outside the storage namespace.",
    ),
]


@with_settings("server", "storage", "mark_id", "spark", "output", "metrics")
@on_spark
def backup(repo: Repo, to: _To, *, settings: Settings) -> None:
    """Copy every object that a mark names to another place.

    Each copy is compared with its original by size and content.

    Give it again after it was stopped: what is there already is not copied twice.
    """
    from lakesweep.collector.lakefs.backup_restore import run_backup
    from lakesweep.collector.lakefs.opening import named_mark, outside_target

    mark, target = named_mark(settings), outside_target(settings, to)
    pending = PendingRun(repo, flow="backup", mark_id=mark)
    run_and_show(settings, pending, lambda context: run_backup(context, mark, target))
