"""Folders and files that a lake makes for its user alone, and what is said where it can't."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakesweep.errors import ConfigError, LakesweepError

__all__ = ["make_folder", "making_a_file"]


def make_folder(folder: Path, not_done: str) -> None:
    """Make a folder for its owner alone, unless it is there; `ConfigError` where that can't be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"The folder {folder} can't be made: {error.strerror}. {not_done}. Name a folder that can be made, or one of yours."
        ) from error


@contextmanager
def making_a_file(path: Path, not_done: str) -> Iterator[None]:
    """Make a file in the block; `ConfigError` where the system does not let it be made."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, and a file is needed. {not_done}. Name a file.")
    make_folder(path.parent, not_done)
    try:
        yield
    except LakesweepError:
        raise  # some of ours are OSErrors too
    except OSError as error:
        raise ConfigError(
            f"The file {path} can't be made: {error.strerror}. {not_done}. Name a file in a folder that may be written."
        ) from error
