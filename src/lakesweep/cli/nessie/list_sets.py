"""`lakesweep nessie list`: every live set, the newest first."""

from __future__ import annotations

from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.options import LIVE_SETS, nessie_command
from lakesweep.cli.render import print_result
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["list_sets"]


@nessie_command(*LIVE_SETS)
def list_sets(*, options: OptionValues, settings: Settings) -> None:
    """List the live sets, the newest first."""
    from lakesweep.report.live_sets import live_set_json, live_set_table

    zone = options.zone
    with opened_live_sets(chosen_database(options)) as live_sets:
        found = live_sets.all()
    documents = [live_set_json(live_set) for live_set in found]
    print_result(
        settings.output,
        {"schema": "lakesweep.nessie-live-sets/1", "live_sets": documents},
        live_set_table(found, zone.name, zone.rules),
    )
