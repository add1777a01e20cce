"""`lakesweep nessie dropped`: tables that no reference has any more, with what is left of their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.catalog_client import nessie_client
from lakesweep.cli.nessie.context import lasting_location, opened_context, with_file_access
from lakesweep.cli.nessie.live_sets import opened_live_sets
from lakesweep.cli.nessie.options import LAKE, nessie_command
from lakesweep.cli.nessie.requests import mark_request
from lakesweep.cli.render import print_result, table_lines
from lakesweep.errors import foreign_errors_as_ours
from lakesweep.progress import human_bytes
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.collector.nessie.dropped import DroppedList, ListedTable
    from lakesweep.settings.nessie_kinds import ShownZone

__all__ = ["dropped"]

_HEAD = ("table", "last seen", "files", "size", "oldest file", "newest file", "collectable")


@nessie_command("time_zone", "nessie", "cutoffs", "dropped_grace", *LAKE)
def dropped(*, options: OptionValues, settings: Settings) -> None:
    """List dropped tables.

    Tables and views that no reference has within its cut-off: until when one had them, and how many files of what size
    and age lie in their locations, by the store. It says whether --collect-dropped would collect them now, and why not.
    Nothing is deleted or stored.
    """
    from lakesweep.collector.nessie.dropped import list_dropped

    zone = options.zone
    request = mark_request(options, collects_dropped=True)
    settings = with_file_access(options, settings)
    with (
        foreign_errors_as_ours("Nothing was deleted."),
        nessie_client(options) as client,
        opened_live_sets(None) as live_sets,
        opened_context(settings, live_sets, lasting_location(options)) as context,
    ):
        context.engine.begin()
        found = list_dropped(context, client, request)
    print_result(settings.output, found.as_json(), _lines(found, zone))


def _lines(found: DroppedList, zone: ShownZone) -> Iterator[str]:
    if found.left:
        yield from table_lines(_HEAD, [_row(one, zone) for one in found.left])
        yield ""
    gone = len(found.tables) - len(found.left)
    yield f"{len(found.left):,} dropped tables and views with files, {gone:,} that have no files left."
    for one in found.left:
        places = ", ".join(one.locations) or one.table.metadata_location
        why = f" It stays: {one.why_kept}." if one.why_kept else ""
        yield f"{'.'.join(one.table.content_key)}: {places}, content {one.table.content_id}.{why}"
    for place, (what, files) in found.places.items():
        size = human_bytes(files.bytes)
        yield f"{place}, {what}: {files.files:,} files, {size}; with --collect-dropped, those that nothing needs are deleted."
    if found.unreadable:
        yield f"{found.unreadable:,} live metadata files can't be read: a sweep would be refused."


def _row(one: ListedTable, zone: ShownZone) -> tuple[str, ...]:
    from lakesweep.report.live_sets import local_time

    files = one.files
    return (
        ".".join(one.table.content_key),
        local_time(one.table.last_seen, zone.rules) or "?",
        f"{files.files:,}" if files else "?",
        human_bytes(files.bytes) if files else "?",
        local_time(files.oldest if files else None, zone.rules) or "?",
        local_time(files.newest if files else None, zone.rules) or "?",
        "no" if one.why_kept else "now",
    )
