"""Options of the commands that open an embedded lake, and what they say when its packages are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lakesweep.errors import ConfigError

LakeData = Annotated[
    Path, typer.Option(help="Folder of the ref store and of the namespaces local://NAME.")
]
LakeDb = Annotated[
    str | None,
    typer.Option(help="Ref store: sqlite:///FILE or postgresql://…  [default: a file in DATA]"),
]
LakeKeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File under which secrets in the ref store are encrypted.  [default: DATA/secrets.key]"
    ),
]


@contextmanager
def lake_packages() -> Iterator[None]:
    """Import the lake within this block: its web framework is an extra, and no other command waits for it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"The embedded lake needs the package {missing.name}, which is not installed."
            " Nothing was done; install lakesweep[lake]."
        ) from missing
