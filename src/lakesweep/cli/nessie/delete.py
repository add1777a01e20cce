"""`lakesweep nessie delete`: remove a live set from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.nessie.asking import shown_zone
from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.stores import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.render import print_json, print_text

if TYPE_CHECKING:
    from lakesweep.settings.values import Settings

__all__ = ["delete"]


@nessie_command("storage", "jdbc", "zone", "id")
def delete(*, given: Given, settings: Settings) -> None:
    """Remove a live set, and no file.

    It goes from the database, whatever its status; no file of the lake is deleted by this.
    """
    from lakesweep.report.live_sets import live_set_json, live_set_table

    zone = shown_zone(given)
    database, live_set_id = chosen_database(given), named_live_set(given)
    with opened_live_sets(database) as live_sets:
        live_set = live_sets.get(live_set_id)
        live_sets.delete(live_set_id)
    if settings.output.output == "json":
        print_json({"schema": "lakesweep.nessie-deleted-set/1", **live_set_json(live_set)})
        return
    print_text(f"Deleting live content set {live_set_id}")
    for line in live_set_table([live_set], zone.name, zone.rules):
        print_text(line)
    print_text(
        f"Live content set {live_set_id} successfully deleted. No file of the lake was touched."
    )
