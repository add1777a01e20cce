"""`lakesweep runs prune`: remove files of ours that no later run needs."""

from __future__ import annotations

from typing import Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_result
from lakesweep.cli.running import opened_run
from lakesweep.settings.values import Settings

__all__ = ["prune"]

_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
]


@with_settings("server", "storage", "output")
def prune(repo: Repo, dry_run: _DryRun = False, *, settings: Settings) -> None:
    """Remove files of earlier runs, as every run does at its end. What the runs deleted stays known.

    Kept are the newest runs up to --keep-runs, unless they are older than 90 days; and always what the next optimised
    run builds on, sweeps that can be resumed, and marks that were backed up.
    """
    from lakesweep.collector.lakefs.between_runs.pruning import prune_own_files
    from lakesweep.collector.lakefs.collect import held_lease

    with opened_run(settings, repo) as context, held_lease(context, "prune") as lease:
        now = lease.store_time or context.resources.clock()
        pruned = prune_own_files(context.resources, context.keep_runs, now, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    lines = [f"{context.name}: {len(pruned.runs)} runs and {pruned.files} files {done}"]
    lines += [f"  {run_id}" for run_id in pruned.runs]
    document = {**pruned.as_json(), "repository": context.name, "dry_run": dry_run}
    print_result(settings.output, document, lines)
