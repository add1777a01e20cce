"""`lakesweep nessie show-licenses`: the licence of lakesweep."""

from __future__ import annotations

import typer

from lakesweep.cli.nessie.options import Version

__all__ = ["show_licenses"]


def show_licenses(version: Version = False) -> None:
    """Say what licence lakesweep has.

    Those of the packages it uses are found with the packages.
    """
    typer.echo(
        "lakesweep: Apache License 2.0. It carries no other software with it; what it uses is installed as packages "
        "of their own, whose licences `pip show PACKAGE` names."
    )
