"""Damage is told with the name of the file it was found in: readers of bytes know only what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakesweep.errors import FormatError

__all__ = ["named_damage"]


@contextmanager
def named_damage(
    what: str, advice: str = "Run again; if it stays so, bring the file back."
) -> Iterator[None]:
    """Says which file a FormatError of the block is about, what was not done, and what to try."""
    try:
        yield
    except FormatError as error:
        said = error.message.rstrip(".")
        raise FormatError(
            f"{what} can't be read: {said}. Nothing was deleted. {advice}", kind=error.kind
        ) from error
