"""`lakesweep nessie expire`: find the files that no live content needs, and delete or record them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.catalog_client import reverifying_client
from lakesweep.cli.nessie.context import opened_context, with_file_access, work_location
from lakesweep.cli.nessie.live_sets import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.options import DELETION, LAKE, LIVE_SETS, REVERIFYING, nessie_command
from lakesweep.cli.nessie.requests import expire_request
from lakesweep.cli.nessie.result_lines import sweep_line
from lakesweep.cli.pages import check_page_files, nessie_place, write_pages
from lakesweep.cli.render import print_text
from lakesweep.cli.running import failure_shown, pending_nessie_run, show_record
from lakesweep.domain.live_sets import LiveSetStatus
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import OutputSettings, Settings

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.client import NessieClient
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.nessie.requests import ExpireRequest

__all__ = ["expire", "expire_and_show", "opened_sweep"]


@nessie_command(
    *LIVE_SETS, "id", "sweep", *DELETION, *REVERIFYING, *LAKE, "pages", "metrics", reverifies=True
)
def expire(*, options: OptionValues, settings: Settings) -> None:
    """Delete or record garbage (also: sweep).

    Garbage is what no content of a live set needs; --defer-deletes records it, for `deferred-deletes`. All base
    locations are compared with the live files of the whole catalog, by exact hash. A live metadata file, manifest
    list or manifest that can't be read stops the run, and nothing is deleted. Before it deletes, Nessie is asked again
    where the mark found it (--uri, --no-reverify), and what became live since the mark is kept. A sweep that was
    stopped continues when it is run again.
    """
    defer, ready = options["defer_deletes"], LiveSetStatus.IDENTIFY_SUCCESS
    with opened_sweep(options, settings, ready, defer=defer) as (context, request, client):
        expire_and_show(settings.output, context, request, client)


@contextmanager
def opened_sweep(
    options: OptionValues, settings: Settings, ready: LiveSetStatus, *, defer: bool = False
) -> Iterator[tuple[NessieContext, ExpireRequest, NessieClient | None]]:
    """What a sweep of the named live set works with. A failure in the block is shown as a record.

    Args:
        ready: the status of a set that can be swept.
    """
    database, live_set_id = chosen_database(options), named_live_set(options)
    request = expire_request(options, live_set_id, defer=defer)
    settings = with_file_access(options, settings, deletes=not defer)
    check_page_files(settings.output)
    pending = pending_nessie_run(live_set_id)
    with (
        failure_shown(settings.output, pending),
        work_location(options, settings.spark) as work,
        opened_live_sets(database) as live_sets,
        reverifying_client(options, live_sets, live_set_id, is_to_delete=not defer) as client,
        opened_context(settings, live_sets, work) as context,
    ):
        pending.phases = context.phases
        pending.place_of = partial(nessie_place, context.resources)
        if live_sets.get(live_set_id).status is ready:
            # A named Spark starts beside our own reads. A set that may be refused never waits for it.
            context.engine.begin()
        yield context, request, client


def expire_and_show(
    output: OutputSettings,
    context: NessieContext,
    request: ExpireRequest,
    client: NessieClient | None,
) -> None:
    """Run the sweep and print its record, with nessie-gc's own line at the end."""
    from lakesweep.collector.nessie.expire import expire as run_expire

    record = run_expire(context, request, client)
    write_pages(output, record, nessie_place(context.resources, request.live_set_id))
    live_set_id, objects = request.live_set_id, record.objects
    if output.output == "json":
        show_record(output, record)
        return
    status = context.live_sets.get(live_set_id).status
    took = (record.finished_at or record.started_at) - record.started_at
    handled = objects["garbage" if request.defer else "deleted"]
    show_record(output, record)
    print_text(f"\n{sweep_line(status, took, live_set_id, handled, objects['failed'])}")
