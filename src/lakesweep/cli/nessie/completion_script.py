"""`lakesweep nessie completion-script`: a script that lets bash complete all commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.completion import script_for
from lakesweep.cli.nessie.options import Version
from lakesweep.errors import ConfigError

__all__ = ["completion_script"]


def completion_script(
    output_file: Annotated[
        Path,
        typer.Option("--output-file", "-O", metavar="FILE", help="Where to write; a new file."),
    ],
    version: Version = False,
) -> None:
    """Write a completion script for bash."""
    try:
        with output_file.open("x", encoding="utf-8") as file:
            file.write(script_for("bash") + "\n")
    except OSError as error:
        raise ConfigError(
            f"The completion script can't be written to {output_file}: {error.strerror}. Nothing was written. "
            "Name a new file in a folder that you may write to.",
            kind="no-completion-script",
        ) from error
    typer.echo(f"Load it with: source {shlex.quote(str(output_file))}")
