"""`lakesweep nessie`: the commands of nessie-gc, with its aliases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lakesweep.cli.nessie.completion_script import completion_script
from lakesweep.cli.nessie.create_sql_schema import create_sql_schema
from lakesweep.cli.nessie.deferred_deletes import deferred_deletes
from lakesweep.cli.nessie.delete import delete
from lakesweep.cli.nessie.dropped import dropped
from lakesweep.cli.nessie.expire import expire
from lakesweep.cli.nessie.explain import explain
from lakesweep.cli.nessie.gc import gc
from lakesweep.cli.nessie.list_deferred import list_deferred
from lakesweep.cli.nessie.list_sets import list_sets
from lakesweep.cli.nessie.mark_live import mark_live
from lakesweep.cli.nessie.options import Version
from lakesweep.cli.nessie.picocli import NessieCommand, NessieGroup
from lakesweep.cli.nessie.show import show
from lakesweep.cli.nessie.show_licenses import show_licenses
from lakesweep.cli.nessie.show_sql_create_schema_script import show_sql_create_schema_script
from lakesweep.cli.nessie.what_if import what_if
from lakesweep.cli.options import EXIT_STATUSES

__all__ = ["nessie_app"]

_VARIABLES = (
    "Options of nessie-gc can also be set by variables, such as NESSIE_GC_JDBC_PASSWORD for --jdbc-password. Options that "
    "only lakesweep has are set by LAKESWEEP_NESSIE_ and their name. The command line wins. Say on the command line where "
    "live sets are (--inmemory, or --jdbc for the database of the variables) and which one is meant. @FILE stands for the "
    "words in a file. "
)

nessie_app = typer.Typer(
    cls=NessieGroup,
    no_args_is_help=True,
    help="Collect the garbage of a Nessie catalog. The commands, options and variables are those of nessie-gc.",
    epilog=_VARIABLES + EXIT_STATUSES.replace("`lakesweep runs resume`", "the same `expire`"),
)


@nessie_app.callback()
def nessie(version: Version = False) -> None:
    """Garbage collection for Nessie catalogs."""


def _help(
    context: typer.Context,
    command: Annotated[str | None, typer.Argument(metavar="[COMMAND]")] = None,
) -> None:
    """Show the help of all commands, or of one."""
    group = context.parent
    assert group is not None
    if command is None:
        typer.echo(group.get_help())
        return
    found = group.command.get_command(group, command)  # type: ignore[attr-defined]
    if found is None:
        group.fail(f"No such command {command!r}.")
    with found.make_context(command, [], parent=group, resilient_parsing=True) as inner:
        typer.echo(inner.get_help())


def _add(command: Callable[..., None], name: str, *aliases: str) -> None:
    nessie_app.command(name, cls=NessieCommand)(command)
    for alias in aliases:
        nessie_app.command(alias, cls=NessieCommand, hidden=True)(command)


_add(mark_live, "mark-live", "identify", "mark")
_add(expire, "expire", "sweep")
_add(gc, "gc")
_add(list_sets, "list")
_add(show, "show")
_add(list_deferred, "list-deferred")
_add(deferred_deletes, "deferred-deletes")
_add(dropped, "dropped")
_add(explain, "explain")
_add(what_if, "what-if")
_add(delete, "delete")
_add(create_sql_schema, "create-sql-schema")
_add(show_sql_create_schema_script, "show-sql-create-schema-script")
_add(show_licenses, "show-licenses")
_add(completion_script, "completion-script")
nessie_app.command("help")(_help)
