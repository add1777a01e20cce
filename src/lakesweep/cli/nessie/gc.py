"""`lakesweep nessie gc`: mark and expire in one go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakesweep.cli.nessie.catalog_client import nessie_client
from lakesweep.cli.nessie.context import (
    lasting_location,
    opened_context,
    with_file_access,
    work_location,
)
from lakesweep.cli.nessie.expire import expire_and_show
from lakesweep.cli.nessie.id_file import wanted_id_file
from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.mark_live import mark_into, marked_lines
from lakesweep.cli.nessie.options import DELETION, LAKE, LIVE_SETS, MARK, nessie_command
from lakesweep.cli.nessie.requests import expire_request, mark_request
from lakesweep.cli.pages import check_page_files, nessie_place
from lakesweep.cli.render import print_lines, print_text
from lakesweep.cli.running import failure_shown, pending_nessie_run
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["gc"]


@nessie_command(*LIVE_SETS, *MARK, "sweep", *DELETION, *LAKE, "pages", "metrics")
def gc(*, options: OptionValues, settings: Settings) -> None:
    """Mark and expire in one go.

    It is the same as `mark-live` and `expire --uri …` after another. With --inmemory no database is needed, and nothing
    of the live set stays. Recording files for a later delete (--defer-deletes) needs a database.
    """
    defer = options["defer_deletes"]
    database = chosen_database(options, may_be_in_memory=not defer, may_drop=True)
    marking = mark_request(options)
    # What is wrong with it shows before the mark.
    sweeping = expire_request(options, LiveSetId(""), defer=defer, is_in_memory=database is None)
    settings = with_file_access(options, settings, deletes=not defer)
    check_page_files(settings.output)
    pending = pending_nessie_run()
    with (
        failure_shown(settings.output, pending),
        work_location(options, settings.spark, lasting=database is not None) as work,
        nessie_client(options) as client,
        opened_live_sets(database) as live_sets,
        opened_context(settings, live_sets, work, lasting_location(options)) as context,
    ):
        pending.phases = context.phases
        if database is not None:
            # The folder of a run in memory goes before a failure is shown.
            pending.place_of = partial(nessie_place, context.resources)
        context.engine.begin()
        marked = mark_into(live_sets, client, marking, wanted_id_file(options), context.phases)
        pending.mark_id = marked.live_set_id
        if settings.output.output == "text":
            print_lines(marked_lines(marked))
            print_text("")
        request = replace(sweeping, live_set_id=marked.live_set_id)
        expire_and_show(settings.output, context, request, client)
