"""`lakesweep nessie what-if`: what a cut-off of any number of days would free."""

from __future__ import annotations

from lakesweep.cli.nessie.catalog_client import nessie_client
from lakesweep.cli.nessie.context import lasting_location, opened_context, with_file_access
from lakesweep.cli.nessie.live_sets import opened_live_sets
from lakesweep.cli.nessie.options import LAKE, nessie_command
from lakesweep.cli.nessie.requests import cutoffs_request
from lakesweep.cli.pages import add_what_if_to_page
from lakesweep.cli.render import print_result
from lakesweep.errors import foreign_errors_as_ours
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["what_if"]

_CUTOFFS = ("cutoff", "cutoff_ref_time", "identify_parallelism", "keep_state_at_cutoff")


@nessie_command(
    "time_zone", "nessie", *_CUTOFFS, "keep_all_snapshots", "grace", "price", "no_save", *LAKE
)
def what_if(*, options: OptionValues, settings: Settings) -> None:
    """Say what a cut-off of N days would free.

    The default cut-off is varied; references that --cutoff matches keep theirs. The commits and the files of tables are
    read once for all N, and the answer is by table. Nothing is deleted. The answer is kept in the work location, and the page
    of the last run there shows it.
    """
    from lakesweep.collector.nessie.what_if.what_if import what_if_cutoffs
    from lakesweep.report.what_if import CHOSEN_DAYS, what_if_text

    request = cutoffs_request(options, CHOSEN_DAYS)
    settings = with_file_access(options, settings)
    with (
        foreign_errors_as_ours("Nothing was deleted."),
        nessie_client(options) as client,
        opened_live_sets(None) as live_sets,
        opened_context(settings, live_sets, lasting_location(options)) as context,
    ):
        context.engine.begin()
        answer = what_if_cutoffs(context, client, request)
        if request.save:
            add_what_if_to_page(context.resources.store, answer)
    print_result(settings.output, answer.as_json(), what_if_text(answer).splitlines())
