"""`lakesweep nessie explain`: why files of a catalog are kept or go, and the day on which they go."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from lakesweep.cli.nessie.catalog_client import nessie_client
from lakesweep.cli.nessie.context import lasting_location, opened_context, with_file_access
from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.options import LAKE, nessie_command
from lakesweep.cli.nessie.requests import mark_request
from lakesweep.cli.render import print_result
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.errors import foreign_errors_as_ours
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["explain"]

_Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="URI", help="Files, as tables or listings spell them."),
]


@nessie_command(
    *("jdbc", "time_zone", "nessie", "cutoffs", "collect_dropped", "dropped_grace"),
    *("keep_all_snapshots", "give_up", "grace"),
    *LAKE,
)
def explain(files: _Files = None, *, options: OptionValues, settings: Settings) -> None:
    """Explain why files are kept or go.

    It says of each file whether it is live, young, protected, garbage or deleted; which tables of which references hold
    it, and as what; which cut-off policy keeps it; and on which day it goes if nothing changes. Name the files before
    the options, and give the cut-offs and the grace of your sweeps. With --jdbc-url the lists of recorded files are
    looked at, and with --work-location what sweeps from there have deleted. Nothing is written or deleted.
    """
    from lakesweep.collector.nessie.explain.explain import explain_files
    from lakesweep.collector.nessie.requests import ExpireRequest
    from lakesweep.report.file_explanations import file_explanations_text

    marking = mark_request(options)
    sweeping = ExpireRequest(
        LiveSetId(""),
        grace=options["grace"],
        keep_all_snapshots=options["keep_all_snapshots"],
        give_up=frozenset(options["give_up"]),
    )
    database = chosen_database(options) if options.flags_in("jdbc") else None
    if database is not None:
        database = replace(database, schema=None)  # no table is made to answer a question
    settings = with_file_access(options, settings)
    with (
        foreign_errors_as_ours("Nothing was written or deleted."),
        nessie_client(options) as client,
        opened_live_sets(database) as live_sets,
        opened_context(settings, live_sets, lasting_location(options)) as context,
    ):
        found = explain_files(context, client, files or (), marking, sweeping)
    print_result(settings.output, found.to_json(), file_explanations_text(found).splitlines())
