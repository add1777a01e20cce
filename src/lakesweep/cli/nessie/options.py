"""Options of `lakesweep nessie`, as nessie-gc has them: a command names groups or single options and gets their values.

@nessie_command("inmemory", "jdbc", "time_zone", "id")
def show(*, options: OptionValues, settings: Settings) -> None:
    ...
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, get_type_hints

import typer

from lakesweep.cli.options import (
    Command,
    option_parameter,
    parameter,
    with_parameters,
    with_settings,
)
from lakesweep.metrics.watched import NESSIE, current_run
from lakesweep.settings.nessie_options import NESSIE_OPTIONS
from lakesweep.settings.nessie_values import OptionValues, refuse_misspelt_variables
from lakesweep.settings.option import Option, choose

__all__ = ["DELETION", "LAKE", "LIVE_SETS", "MARK", "REVERIFYING", "Version", "nessie_command"]

LIVE_SETS = ("inmemory", "jdbc", "time_zone")
MARK = ("nessie", "cutoffs", "write_live_set_id_to", "collect_dropped", "dropped_grace")
DELETION = ("keep_all_snapshots", "give_up", "max_delete_share", "confirm", "grace")
REVERIFYING = ("nessie", "no_reverify", "catalog_moved")
LAKE = ("files", "work_location", "spark", "storage_option")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("lakesweep"))
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", "-V", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
]


def nessie_command(*wanted: str, reverifies: bool = False) -> Callable[[Command], Command]:
    """Give a command the options of these names and groups: Nessie's own as `options`, shared ones in `settings`.

    Further parameters of the command are arguments of its own, and come before all options.

    Args:
        reverifies: Nessie is asked for what is live now, where the mark found it unless `--uri` says otherwise.
    """
    chosen = choose(NESSIE_OPTIONS, wanted)
    shared = set(wanted).difference(*((o.name, o.group) for o in chosen))
    shown = [_reverifying(o) if o.name == "uri" and reverifies else o for o in chosen]

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        arguments = [
            parameter(name, hints[name])
            for name in inspect.signature(command).parameters
            if name not in ("options", "settings")
        ]
        names = [argument.name for argument in arguments]

        @functools.wraps(command)
        def run(*, settings: object, version: bool, **flags: object) -> None:
            current_run().catalog = NESSIE
            refuse_misspelt_variables(os.environ)
            own = {name: flags.pop(name) for name in names}
            options = OptionValues(chosen, flags, os.environ)
            _ = options.zone  # a wrong one is an error, whether times are shown or not
            command(**own, options=options, settings=settings)

        own = [
            *arguments,
            parameter("version", Version, default=False),
            parameter("settings", object),
        ]
        return with_settings("output", *shared)(
            with_parameters(run, [*map(option_parameter, shown), *own])
        )

    return decorate


def _reverifying(uri: Option) -> Option:
    text = "Nessie's REST API, where what is live now is read again before deletes."
    return replace(uri, help=text, default=None, default_text="the mark's")
