"""`lakesweep hard-delete`: objects that an embedded lake deletes by itself, soon after their last reference."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.options import Repo, with_settings
from lakesweep.cli.render import print_result
from lakesweep.cli.rules import opened
from lakesweep.domain.durations import format_time
from lakesweep.settings.values import Settings

if TYPE_CHECKING:
    from lakesweep.catalogs.lakefs.wire import HardDeleteSettingWire, HardDeleteWire

__all__ = ["hard_delete_app"]

hard_delete_app = typer.Typer(
    no_args_is_help=True,
    help="Deletes that an embedded lake makes by itself. An object goes soon after its last reference.",
)


class Switch(Enum):
    """A repository's own word on hard delete; `default` leaves it to the server."""

    ON = "on"
    OFF = "off"
    DEFAULT = "default"


@hard_delete_app.command("show")
@with_settings("server", "output")
def show(repo: Repo, *, settings: Settings) -> None:
    """Print whether it is on, and what can be brought back."""
    with opened(settings, repo) as (client, name):
        setting = client.hard_delete_setting(name)
        deleted = client.hard_deletes(name)
    shown = {**setting.model_dump(), "can_be_undone": [one.model_dump() for one in deleted]}
    print_result(settings.output, shown, [_state(setting), *map(_line, deleted)])


@hard_delete_app.command("set")
@with_settings("server", "output")
def switch(
    repo: Repo,
    value: Annotated[Switch, typer.Argument(help="`default`: as the server is set.")],
    *,
    settings: Settings,
) -> None:
    """Switch it for one repository, whatever the server's own setting is."""
    with opened(settings, repo) as (client, name):
        client.set_hard_delete(name, None if value is Switch.DEFAULT else value is Switch.ON)
        setting = client.hard_delete_setting(name)
    print_result(settings.output, setting.model_dump(), [_state(setting)])


@hard_delete_app.command("undo")
@with_settings("server", "output")
def undo(
    repo: Repo,
    address: Annotated[str, typer.Argument(help="The address that `hard-delete show` names.")],
    branch: Annotated[str, typer.Option(help="Another branch than it was on.")] = "",
    path: Annotated[str, typer.Option(help="Another path than it was at.")] = "",
    *,
    settings: Settings,
) -> None:
    """Stage a deleted object again, with the same bytes at a new address. The path must be free."""
    with opened(settings, repo) as (client, name):
        back = client.undo_hard_delete(name, address, branch, path)
    shown = {"path": back.path, "physical_address": back.physical_address}
    said = f"{back.path} is staged again, at {back.physical_address}"
    print_result(settings.output, shown, [said])


def _state(setting: HardDeleteSettingWire) -> str:
    whose = "the server's" if setting.own_setting is None else "the repository's own"
    return f"hard delete is {'on' if setting.enabled else 'off'}, by {whose} setting"


def _line(one: HardDeleteWire) -> str:
    until = "" if one.undo_until is None else f", can be undone until {format_time(one.undo_until)}"
    where = f"{one.path!r} on {one.branch_id}"
    return f"{one.address}  {where}, deleted {format_time(one.deleted_at)}{until}"
