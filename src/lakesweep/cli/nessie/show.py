"""`lakesweep nessie show`: one live set and, where asked, what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.live_sets import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.options import LIVE_SETS, nessie_command
from lakesweep.cli.render import print_json_parts, print_lines
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.domain.live_sets import LiveSet
    from lakesweep.settings.nessie_kinds import ShownZone

__all__ = ["show"]


@nessie_command(*LIVE_SETS, "id", "show")
def show(*, options: OptionValues, settings: Settings) -> None:
    """Show one live set.

    Its status and times, what its mark was asked, and with options its contents, base locations and recorded files.
    """
    zone = options.zone
    database, live_set_id = chosen_database(options), named_live_set(options)
    with opened_live_sets(database) as live_sets:
        live_set = live_sets.get(live_set_id)
        if settings.output.output == "json":
            print_json_parts(*_document(live_sets, live_set, options))
            return
        print_lines(_lines(live_sets, live_set, options, zone))


def _lines(
    live_sets: LiveSetStore, live_set: LiveSet, options: OptionValues, zone: ShownZone
) -> Iterator[str]:
    from lakesweep.report.live_sets import (
        content_lines,
        deferred_lines,
        live_set_lines,
        mark_facts_lines,
    )

    count = live_sets.content_count(live_set.id)
    yield from live_set_lines(live_set, count, zone.name, zone.rules)
    yield from mark_facts_lines(live_sets.facts(live_set.id))
    yield from content_lines(
        live_sets.contents(live_set.id) if options["with_content_references"] else None,
        live_sets.base_locations(live_set.id) if options["with_base_locations"] else None,
    )
    if options["with_deferred_deletes"]:
        yield from ("", "List of deferred deletes:")
        yield from deferred_lines(live_sets.deferred(live_set.id))


def _document(
    live_sets: LiveSetStore, live_set: LiveSet, options: OptionValues
) -> tuple[dict[str, object], dict[str, Iterator[object]]]:
    from lakesweep.report.live_sets import (
        deferred_json,
        live_set_json,
        mark_facts_json,
        reference_json,
    )

    head = {
        "schema": "lakesweep.nessie-live-set/1",
        **live_set_json(live_set),
        "content_count": live_sets.content_count(live_set.id),
        "mark": mark_facts_json(live_sets.facts(live_set.id)),
    }
    lists: dict[str, Iterator[object]] = {}
    if options["with_content_references"]:
        references = live_sets.contents(live_set.id)
        lists["content_references"] = (reference_json(reference) for reference in references)
    if options["with_base_locations"]:
        places = live_sets.base_locations(live_set.id)
        lists["base_locations"] = ({"content_id": c, "location": place} for c, place in places)
    if options["with_deferred_deletes"]:
        files = live_sets.deferred(live_set.id)
        lists["deferred_deletes"] = (deferred_json(file) for file in files)
    return head, lists
