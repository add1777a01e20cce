"""`lakesweep nessie delete`: remove a live set from the database."""

from __future__ import annotations

from lakesweep.cli.nessie.context import lasting_location, with_file_access
from lakesweep.cli.nessie.live_sets import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.options import LIVE_SETS, nessie_command
from lakesweep.cli.render import print_result
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["delete"]


@nessie_command(*LIVE_SETS, "id", "files", "work_location", "storage_option")
def delete(*, options: OptionValues, settings: Settings) -> None:
    """Remove a live set, and no file of the lake.

    It goes from the database, whatever its status, with what lakesweep keeps of it in its work location: that of its
    last expiry, unless --work-location names another.
    """
    from lakesweep.collector.nessie.set_files import delete_set
    from lakesweep.report.live_sets import live_set_json, live_set_table
    from lakesweep.storage import open_store

    zone = options.zone
    database, live_set_id = chosen_database(options), named_live_set(options)
    settings = with_file_access(options, settings)
    with opened_live_sets(database) as live_sets:
        live_set = live_sets.get(live_set_id)
        work = lasting_location(options, live_sets.work_of(live_set_id))
        removed = delete_set(live_sets, open_store(work, settings.storage), live_set_id)
    lines = [
        f"Deleting live content set {live_set_id}",
        *live_set_table([live_set], zone.name, zone.rules),
        f"Live content set {live_set_id} successfully deleted. No file of the lake was touched.",
    ]
    if removed:
        lines.append(f"{removed} files of its runs in {work.uri} were removed with it.")
    document = {"schema": "lakesweep.nessie-deleted-set/1", **live_set_json(live_set)}
    print_result(settings.output, document, lines)
