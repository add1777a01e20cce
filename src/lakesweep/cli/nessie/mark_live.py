"""`lakesweep nessie mark-live`: walk the references and store what is live. Files are not looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.catalog_client import nessie_client
from lakesweep.cli.nessie.id_file import IdFile, wanted_id_file
from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.options import LIVE_SETS, MARK, nessie_command
from lakesweep.cli.nessie.requests import mark_request
from lakesweep.cli.nessie.result_lines import identify_line
from lakesweep.cli.render import print_json, print_result
from lakesweep.cli.running import progress_display
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSetStatus
from lakesweep.errors import LakesweepError, foreign_errors_as_ours
from lakesweep.metrics.watched import current_run
from lakesweep.progress import human_count
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.client import NessieClient
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.collector.nessie.identify import Marked
    from lakesweep.collector.nessie.requests import MarkRequest
    from lakesweep.collector.phases import Phases

__all__ = ["mark_into", "mark_live", "marked_lines"]

SCHEMA = "lakesweep.nessie-marked/1"


@nessie_command(*LIVE_SETS, *MARK, "metrics")
def mark_live(*, options: OptionValues, settings: Settings) -> None:
    """Store what is live (also: identify, mark).

    All branches and tags of Nessie are walked, each back to its cut-off. Nessie is only read, and the data lake is
    not looked at. The result is a new live set in the database, for `expire`.
    """
    from lakesweep.collector.phases import Phases

    database = chosen_database(options, may_drop=True)
    request = mark_request(options)
    started = datetime.now(UTC)
    try:
        with (
            foreign_errors_as_ours("The live set is not finished, and nothing was deleted."),
            nessie_client(options) as client,
            opened_live_sets(database) as live_sets,
        ):
            phases = Phases("nessie", progress_display(settings.output))
            current_run().phases = phases
            marked = mark_into(live_sets, client, request, wanted_id_file(options), phases)
    except LakesweepError as error:
        if settings.output.output == "json":
            print_json(_failed(error, datetime.now(UTC) - started))
        raise
    print_result(settings.output, _document(marked), marked_lines(marked))


def mark_into(
    live_sets: LiveSetStore,
    client: NessieClient,
    request: MarkRequest,
    id_file: IdFile,
    phases: Phases,
) -> Marked:
    """Mark, and leave the new live set's id in its file."""
    from lakesweep.collector.nessie.identify import mark_live as mark

    id_file.prepare()
    marked = mark(client, live_sets, request, phases)
    id_file.fill(marked.live_set_id)
    return marked


def marked_lines(marked: Marked) -> list[str]:
    """What a mark found, with nessie-gc's own line at the end."""
    read, stored = human_count(marked.commits_read, "commits"), marked.references
    lines = [f"{read} read, {human_count(stored, 'live states')} of tables and views stored"]
    for is_collected, what in (
        (False, "are dropped on every reference; their files stay:"),
        (True, "are dropped on every reference, and a sweep of this set collects their files:"),
    ):
        names = [".".join(t.content_key) for t in marked.dropped if t.is_collected is is_collected]
        if names:
            lines.append(f"{len(names):,} tables and views {what}")
            lines += [f"  {name}" for name in names[:5]]
        if len(names) > 5:
            lines.append(f"  … and {len(names) - 5} more")
    if marked.others:
        kinds = ", ".join(sorted({other.kind for other in marked.others}))
        lines.append(
            f"{len(marked.others):,} contents of other kinds than tables and views are protected: {kinds}"
        )
    return [*lines, identify_line(marked.status, marked.seconds, marked.live_set_id)]


def _document(marked: Marked) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "live_set_id": marked.live_set_id,
        "status": marked.status.value,
        "seconds": marked.seconds.total_seconds(),
        "content_references": marked.references,
        "commits_read": marked.commits_read,
        "dropped": [
            {
                "content_id": table.content_id,
                "content_key": list(table.content_key),
                "content_type": table.content_type.value,
                "metadata_location": table.metadata_location,
                "last_seen": format_time(table.last_seen) if table.last_seen else None,
                "is_collected": table.is_collected,
            }
            for table in marked.dropped
        ],
        "others": [
            {
                "content_id": other.content_id,
                "content_key": list(other.content_key),
                "kind": other.kind,
            }
            for other in marked.others
        ],
    }


def _failed(error: LakesweepError, took: timedelta) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "live_set_id": None,
        "status": LiveSetStatus.IDENTIFY_FAILED.value,
        "seconds": took.total_seconds(),
        "reason": error.message,
        "kind": error.kind,
    }
