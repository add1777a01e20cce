"""`lakesweep version`: what is installed here."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

import typer

__all__ = ["installed_versions", "show_version"]

_PARTS = ("lakesweep", "obstore", "pyarrow", "numba", "pyspark")


def installed_versions() -> dict[str, str | None]:
    """Versions of lakesweep, of Python and of what results depend on; None where it is not installed."""
    found: dict[str, str | None] = {}
    for part in _PARTS:
        try:
            found[part] = version(part)
        except PackageNotFoundError:
            found[part] = None
    return found | {"python": platform.python_version()}


def show_version(
    output: Annotated[
        str, typer.Option("--output", metavar="text|json", help="How it is printed.")
    ] = "text",
) -> None:
    """Print the versions of lakesweep and its libraries."""
    versions = installed_versions()
    if _format(output) == "json":
        typer.echo(json.dumps(versions))
        return
    for part, number in versions.items():
        typer.echo(f"{part} {number or '(not installed)'}")


def _format(output: str) -> Literal["text", "json"]:
    if output == "text":
        return "text"
    if output == "json":
        return "json"
    raise typer.BadParameter(f"{output!r} is neither text nor json.", param_hint="--output")
