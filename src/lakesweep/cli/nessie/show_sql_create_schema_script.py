"""`lakesweep nessie show-sql-create-schema-script`: the SQL of the tables of live sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.nessie.options import Version
from lakesweep.errors import ConfigError

__all__ = ["show_sql_create_schema_script"]


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
