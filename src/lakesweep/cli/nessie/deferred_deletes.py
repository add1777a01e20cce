"""`lakesweep nessie deferred-deletes`: delete the files that an earlier sweep recorded."""

from __future__ import annotations

from lakesweep.cli.nessie.expire import opened_sweep
from lakesweep.cli.nessie.options import DELETION, LAKE, LIVE_SETS, REVERIFYING, nessie_command
from lakesweep.cli.nessie.result_lines import deferred_line
from lakesweep.cli.pages import nessie_place, write_pages
from lakesweep.cli.render import print_text
from lakesweep.cli.running import show_record
from lakesweep.domain.live_sets import LiveSetStatus
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["deferred_deletes"]


@nessie_command(
    *LIVE_SETS, "id", *DELETION, *REVERIFYING, *LAKE, "pages", "metrics", reverifies=True
)
def deferred_deletes(*, options: OptionValues, settings: Settings) -> None:
    """Delete the recorded files.

    They are those that `expire --defer-deletes` found. A file that was written anew since is kept, and so is one that
    is younger than the grace period. Nessie is asked again where the mark found it (--uri, --no-reverify), and what
    became live since the mark is kept. A second run says what was gone already.
    """
    from lakesweep.collector.nessie.deferred import delete_deferred

    with opened_sweep(options, settings, LiveSetStatus.EXPIRY_SUCCESS) as opened:
        record = delete_deferred(*opened)
        context, request, _ = opened
        write_pages(settings.output, record, nessie_place(context.resources, request.live_set_id))
    show_record(settings.output, record)
    if settings.output.output == "text":
        line = deferred_line(record.objects["deleted"], record.objects["failed"])
        print_text(f"\n{line}")
