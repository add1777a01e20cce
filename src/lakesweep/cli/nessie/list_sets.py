"""`lakesweep nessie list`: every live set, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.nessie.asking import shown_zone
from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.stores import chosen_database, opened_live_sets
from lakesweep.cli.render import print_json, print_text

if TYPE_CHECKING:
    from lakesweep.settings.values import Settings

__all__ = ["list_sets"]


@nessie_command("storage", "jdbc", "zone")
def list_sets(*, given: Given, settings: Settings) -> None:
    """List the live sets, the newest first."""
    from lakesweep.report.live_sets import live_set_json, live_set_table

    zone = shown_zone(given)
    with opened_live_sets(chosen_database(given)) as live_sets:
        found = live_sets.all()
    if settings.output.output == "json":
        documents = [live_set_json(live_set) for live_set in found]
        print_json({"schema": "lakesweep.nessie-live-sets/1", "live_sets": documents})
        return
    for line in live_set_table(found, zone.name, zone.rules):
        print_text(line)
