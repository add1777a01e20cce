"""Option groups of `lakesweep nessie`, as nessie-gc has them: a command names its groups and is handed what was given.

@nessie_command("storage", "jdbc", "zone", "id")
def show(*, given: Given, settings: Settings) -> None:
    ...
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer

from lakesweep.cli.nessie.declared import OPTIONS, Option, OptionGroup
from lakesweep.cli.nessie.given import Given, refuse_misspelt_variables
from lakesweep.cli.options import with_settings
from lakesweep.settings.declared import Group

__all__ = ["Version", "nessie_command"]

Command = Callable[..., None]

# lakeFS's own, among the settings of the object store.
_LAKEFS_ONLY = ("keep_runs", "no_lease", "namespace_root")


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


def nessie_command(
    *groups: OptionGroup, more: tuple[Group, ...] = ("output",), reverifies: bool = False
) -> Callable[[Command], Command]:
    """Give a command the options of these groups, and lakesweep's own of the groups `more`.

    Args:
        reverifies: Nessie is asked for what is live now, where the mark found it unless `--uri` says otherwise.
    """
    chosen = [o for o in OPTIONS if o.group in groups]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(*, settings: object, version: bool, **flags: object) -> None:
            refuse_misspelt_variables(os.environ)
            command(given=Given(flags, os.environ), settings=settings)

        parameters = [_parameter(o.name, _annotation(o, reverifies)) for o in chosen]
        parameters.append(_parameter("version", Version, default=False))
        parameters.append(_parameter("settings", object))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__
        return with_settings(*more, without=_LAKEFS_ONLY)(run)

    return decorate


def _parameter(name: str, annotation: Any, default: object = None) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _annotation(declared: Option, reverifies: bool) -> Any:
    names = [declared.flag, *([declared.short] if declared.short else [])]
    default = f" [default: {declared.default}]" if declared.default is not None else ""
    help_text = declared.help + default
    if declared.name == "uri" and reverifies:
        help_text = "Nessie's REST API, where what is live now is read again before deletes. [default: the mark's]"
    if declared.kind == "negatable":
        names = [f"{declared.flag}/--no-{declared.flag[2:]}"]
    if declared.kind in ("switch", "negatable"):
        return Annotated[bool | None, typer.Option(*names, help=help_text)]
    wanted = list[str] | None if declared.kind in ("pairs", "list") else str | None
    return Annotated[wanted, typer.Option(*names, metavar=declared.metavar, help=help_text)]
