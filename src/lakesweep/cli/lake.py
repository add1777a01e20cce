"""`lakesweep lake`: copies of a whole embedded lake."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.lake_options import LakeData, lake_packages
from lakesweep.cli.options import with_settings
from lakesweep.cli.render import print_result
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.lake.backup import LakeCopy

__all__ = ["lake_app"]

lake_app = typer.Typer(no_args_is_help=True, help="Copies of a whole embedded lake.")


@lake_app.command("backup")
@with_settings("output")
def backup(
    data: LakeData,
    to: Annotated[Path, typer.Option(help="A new folder for the copy.")],
    *,
    settings: Settings,
) -> None:
    """Copy a lake to a new folder, also while it is served.

    Refs and the namespaces in DATA are copied, and the key file is not.
    """
    with lake_packages():
        from lakesweep.lake.backup import back_up_lake
    _show(settings, back_up_lake(data, to), "copied")


@lake_app.command("restore")
@with_settings("output")
def restore(
    source: Annotated[Path, typer.Option("--from", help="A copy that `lake backup` made.")],
    data: LakeData,
    *,
    settings: Settings,
) -> None:
    """Make a new lake from a copy; every file is verified.

    Put the key file beside it then.
    """
    with lake_packages():
        from lakesweep.lake.backup import restore_lake
    _show(settings, restore_lake(source, data), "restored")


def _show(settings: Settings, made: LakeCopy, verb: str) -> None:
    lines = [f"{verb} {made.repositories} repositories, {made.files} files, {made.bytes} bytes"]
    lines += [f"not in the copy: {namespace}" for namespace in made.namespaces_elsewhere]
    print_result(settings.output, asdict(made), lines)
