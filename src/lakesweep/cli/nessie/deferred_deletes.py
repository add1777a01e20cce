"""`lakesweep nessie deferred-deletes`: delete the files that an earlier sweep recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.nessie.asking import deferred_request, reverifying_client, shown_zone
from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.stores import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.sweeping import failure_shown, opened_context, show_result
from lakesweep.cli.nessie.telling import deferred_line
from lakesweep.cli.nessie.working import file_access, refuse_disabled_deletes, work_location
from lakesweep.domain.live_sets import LiveSetStatus

if TYPE_CHECKING:
    from lakesweep.settings.values import Settings

__all__ = ["deferred_deletes"]


@nessie_command(
    *(
        "storage",
        "jdbc",
        "zone",
        "id",
        "files",
        "nessie",
        "keep",
        "guard",
        "grace",
        "reverify",
        "work",
    ),
    more=("spark", "storage", "output"),
    reverifies=True,
)
def deferred_deletes(*, given: Given, settings: Settings) -> None:
    """Delete the recorded files.

    They are those that `expire --defer-deletes` found. A file that was written anew since is kept, and so is one that
    is younger than the grace period. Nessie is asked again where the mark found it (--uri, --no-reverify), and what
    became live since the mark is kept. A second run says what was gone already.
    """
    from lakesweep.collector.nessie.deferred import delete_deferred

    shown_zone(given)
    database, live_set_id = chosen_database(given), named_live_set(given)
    request = deferred_request(given, live_set_id)
    settings, access = file_access(given, settings)
    refuse_disabled_deletes(access)
    with (
        failure_shown(settings.output, live_set_id) as begun,
        work_location(given, settings.spark) as work,
        opened_live_sets(database) as live_sets,
        reverifying_client(given, live_sets, live_set_id) as client,
        opened_context(settings, live_sets, work) as context,
    ):
        begun.phases = context.phases
        if live_sets.get(live_set_id).status is LiveSetStatus.EXPIRY_SUCCESS:
            context.engine.begin()  # beside our own reads, as for `expire`
        record = delete_deferred(context, request, client)
    show_result(
        settings.output,
        record,
        lambda: deferred_line(record.objects["deleted"], record.objects["failed"]),
    )
