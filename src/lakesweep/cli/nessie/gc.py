"""`lakesweep nessie gc`: mark and expire in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.nessie.asking import expire_request, mark_request, nessie_client, shown_zone
from lakesweep.cli.nessie.expire import expire_and_show
from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.id_file import wanted_id_file
from lakesweep.cli.nessie.mark_live import mark_into, marked_lines
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.nessie.stores import chosen_database, opened_live_sets
from lakesweep.cli.nessie.sweeping import failure_shown, opened_context
from lakesweep.cli.nessie.working import (
    file_access,
    lasting_location,
    refuse_disabled_deletes,
    work_location,
)
from lakesweep.cli.render import print_text

if TYPE_CHECKING:
    from lakesweep.settings.values import Settings

__all__ = ["gc"]


@nessie_command(
    *(
        "storage",
        "jdbc",
        "zone",
        "nessie",
        "cutoffs",
        "mark",
        "dropped",
        "dropped_grace",
        "sweep",
        "files",
        "keep",
        "guard",
        "grace",
        "work",
    ),
    more=("spark", "storage", "output"),
)
def gc(*, given: Given, settings: Settings) -> None:
    """Mark and expire in one go.

    It is the same as `mark-live` and `expire --uri …` after another. With --inmemory no database is needed, and nothing of the live set stays. Recording files for a later delete
    (--defer-deletes) needs a database.
    """
    from lakesweep.domain.live_sets import LiveSetId

    shown_zone(given)
    defer = given.switch("defer_deletes")
    database = chosen_database(given, may_be_in_memory=not defer, may_drop=True)
    marking = mark_request(given)
    expire_request(given, LiveSetId(""), defer=defer)  # what is wrong with it shows before the mark
    settings, access = file_access(given, settings)
    if not defer:
        refuse_disabled_deletes(access)
    with (
        failure_shown(settings.output) as begun,
        work_location(given, settings.spark, lasting=database is not None) as work,
        nessie_client(given) as client,
        opened_live_sets(database) as live_sets,
        opened_context(settings, live_sets, work, lasting_location(given)) as context,
    ):
        begun.phases = context.phases
        context.engine.begin()
        marked = mark_into(live_sets, client, marking, wanted_id_file(given), context.phases)
        begun.live_set_id = marked.live_set_id
        if settings.output.output == "text":
            for line in marked_lines(marked):
                print_text(line)
            print_text("")
        is_in_memory = database is None
        request = expire_request(given, marked.live_set_id, defer=defer, is_in_memory=is_in_memory)
        expire_and_show(settings.output, context, request, client)
