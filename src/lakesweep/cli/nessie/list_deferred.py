"""`lakesweep nessie list-deferred`: the files that a sweep recorded instead of deleting them."""

from __future__ import annotations

from lakesweep.cli.nessie.live_sets import chosen_database, named_live_set, opened_live_sets
from lakesweep.cli.nessie.options import LIVE_SETS, nessie_command
from lakesweep.cli.render import print_json_parts, print_lines, print_text
from lakesweep.domain.live_sets import LiveSet, LiveSetStatus
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["list_deferred"]


@nessie_command(*LIVE_SETS, "id")
def list_deferred(*, options: OptionValues, settings: Settings) -> None:
    """List the recorded files.

    They are those that `expire --defer-deletes` found.
    """
    from lakesweep.report.live_sets import (
        deferred_json,
        deferred_lines,
        live_set_json,
        live_set_table,
    )

    zone = options.zone
    database, live_set_id = chosen_database(options), named_live_set(options)
    with opened_live_sets(database) as live_sets:
        live_set = live_sets.get(live_set_id)
        _refuse_unless_expired(live_set)
        files = live_sets.deferred(live_set_id)
        if settings.output.output == "json":
            head = {"schema": "lakesweep.nessie-deferred/1", **live_set_json(live_set)}
            print_json_parts(head, {"deferred_deletes": (deferred_json(file) for file in files)})
            return
        print_text("List of deferred-file-deletions:")
        print_lines(live_set_table([live_set], zone.name, zone.rules))
        print_text("")
        print_lines(deferred_lines(files))


def _refuse_unless_expired(live_set: LiveSet) -> None:
    if live_set.status is not LiveSetStatus.EXPIRY_SUCCESS:
        raise ConfigError(
            f"Expected live-set to have status EXPIRY_SUCCESS, but status is {live_set.status}: the list of live set "
            f"{live_set.id} is not complete. Run `lakesweep nessie expire --defer-deletes` to its end first.",
            kind="wrong-status",
        )
