"""`lakesweep job`: where the job files for spark-submit are."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Literal

import typer

__all__ = ["job"]

_Name = Annotated[
    Literal["gc", "backup", "restore"], typer.Argument(metavar="gc|backup|restore", help="Which.")
]


def job(name: _Name) -> None:
    """Print the path of a job file for spark-submit.

    For example: spark-submit -c spark.hadoop.lakefs.api.url=… $(lakesweep job gc) REPO REGION
    """
    typer.echo(str(files("lakesweep.jobs").joinpath(f"{name}.py")))
