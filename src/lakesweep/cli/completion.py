"""`lakesweep completion`: the script that lets a shell complete lakesweep's commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

__all__ = ["completion", "script_for"]

_Shell = Annotated[
    Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="Your shell.")
]


def completion(shell: _Shell) -> None:
    """Print a script that lets your shell complete words.

    For example: source <(lakesweep completion bash)
    """
    typer.echo(script_for(shell))


def script_for(shell: str) -> str:
    """A script that asks the program itself for the words that may come next."""
    return get_completion_script(
        prog_name="lakesweep", complete_var="_LAKESWEEP_COMPLETE", shell=shell
    )
