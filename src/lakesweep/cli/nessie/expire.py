"""`lakesweep nessie expire`: find the files that no live content needs, and delete or record them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.nessie.asking import expire_request, reverifying_client, shown_zone
from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.stores import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.sweeping import (
    failure_shown,
    opened_context,
    run_seconds,
    show_result,
)
from lakesweep.cli.nessie.telling import sweep_line
from lakesweep.cli.nessie.working import file_access, refuse_disabled_deletes, work_location
from lakesweep.domain.live_sets import LiveSetStatus

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.client import NessieClient
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.nessie.requests import ExpireRequest
    from lakesweep.settings.values import OutputSettings, Settings

__all__ = ["expire", "expire_and_show"]


@nessie_command(
    *(
        "storage",
        "jdbc",
        "zone",
        "id",
        "sweep",
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
def expire(*, given: Given, settings: Settings) -> None:
    """Delete or record garbage (also: sweep).

    Garbage is what no content of a live set needs; --defer-deletes records it, for `deferred-deletes`. All base
    locations are compared with the live files of the whole catalog, by exact hash. A live metadata file, manifest
    list or manifest that can't be read stops the run, and nothing is deleted. Before it deletes, Nessie is asked again
    where the mark found it (--uri, --no-reverify), and what became live since the mark is kept. A sweep that was
    stopped goes on when it is run again.
    """
    shown_zone(given)
    database, live_set_id = chosen_database(given), named_live_set(given)
    defer = given.switch("defer_deletes")
    request = expire_request(given, live_set_id, defer=defer)
    settings, access = file_access(given, settings)
    if not defer:
        refuse_disabled_deletes(access)
    with (
        failure_shown(settings.output, live_set_id) as begun,
        work_location(given, settings.spark) as work,
        opened_live_sets(database) as live_sets,
        reverifying_client(given, live_sets, live_set_id, is_to_delete=not defer) as client,
        opened_context(settings, live_sets, work) as context,
    ):
        begun.phases = context.phases
        if live_sets.get(live_set_id).status is LiveSetStatus.IDENTIFY_SUCCESS:
            # A named Spark starts beside our own reads. A set that may be refused never waits for it.
            context.engine.begin()
        expire_and_show(settings.output, context, request, client)


def expire_and_show(
    output: OutputSettings,
    context: NessieContext,
    request: ExpireRequest,
    client: NessieClient | None,
) -> None:
    """Run the sweep and print its record, with nessie-gc's own line at the end."""
    from lakesweep.collector.nessie.expire import expire as run_expire

    record = run_expire(context, request, client)

    def result_line() -> str:
        status = context.live_sets.get(request.live_set_id).status
        handled = record.objects["garbage" if request.defer else "deleted"]
        failed = record.objects["failed"]
        return sweep_line(status, run_seconds(record), request.live_set_id, handled, failed)

    show_result(output, record, result_line)
