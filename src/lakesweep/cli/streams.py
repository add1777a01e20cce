"""stdin, stdout and stderr as a caller leaves them: closed, full, or in an encoding that lacks what is printed."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import typer

from lakesweep.engine.stdout import stdout_in_use
from lakesweep.errors import OutputError

__all__ = ["prepare_streams", "write_result"]

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare_streams() -> None:
    """Let a stream that is closed lead nowhere, and escape what the encoding of stdout lacks.

    The number of a closed stream would be that of the next file or connection that is opened, and a JVM would print there.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            os.set_inheritable(
                number, True
            )  # as streams are; dup2 leaves a number alone that is its own
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 (it lasts)
            setattr(sys, name, stream)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write_result(text: str, *, nl: bool = True) -> None:
    """Write a part of the result to stdout.

    Raises:
        OutputError: it can't be written.
    """
    try:
        with stdout_in_use:
            typer.echo(text, nl=nl)
    except OSError as error:
        raise OutputError(
            f"The result could not be written to stdout: {error.strerror}. What the command had done by then stays done. "
            "Let stdout lead to where there is room. Of a run, `lakesweep runs show` prints the record."
        ) from error
