"""`lakesweep nessie create-sql-schema` and `show-sql-create-schema-script`: the tables of live sets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.options import Version, nessie_command
from lakesweep.cli.render import print_json, print_text
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues

if TYPE_CHECKING:
    from lakesweep.settings.values import Settings

__all__ = ["create_sql_schema", "show_sql_create_schema_script"]


@nessie_command("jdbc")
def create_sql_schema(*, options: OptionValues, settings: Settings) -> None:
    """Make the tables of live sets.

    They are nessie-gc's own, and one beside them for what those have no column for. --jdbc-schema says how [default here: CREATE, which fails where they exist].
    """
    from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy

    database = chosen_database(options, may_drop=True)
    assert database is not None  # there is no --inmemory here
    strategy = SchemaStrategy[database.schema or "CREATE"]
    with opened_live_sets(dataclasses.replace(database, schema=None)) as live_sets:
        statements = live_sets.create_schema(strategy)
    if settings.output.output == "json":
        document = {"schema": "lakesweep.nessie-schema/1", "strategy": strategy.value}
        print_json({**document, "statements": statements})
        return
    for statement in statements:
        print_text(f"{statement.strip().rstrip(';')};\n")
    print_text("Done." if statements else "All tables are there already.")


def show_sql_create_schema_script(
    output_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this file; default: stdout.")
    ] = None,
    version: Version = False,
) -> None:
    """Print the SQL of these tables.

    It can be changed to suit the database before it is run. No database is asked.
    """
    from lakesweep.catalogs.nessie.live_sets.schema import schema_script

    script = schema_script()
    if output_file is None:
        typer.echo(script, nl=not script.endswith("\n"))
        return
    try:
        output_file.write_text(script, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"The script can't be written to {output_file}: {error}.", kind="bad-output-file"
        ) from error
