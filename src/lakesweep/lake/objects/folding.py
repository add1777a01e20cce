"""Listing with a delimiter: what lies below it is folded into one common prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PAST_ANY_TEXT = b"\xff"
"""No UTF-8 text has this byte, so `prefix + this` sorts after every path with the prefix."""


def fold(
    rows_after: Callable[[bytes | None], Iterator[tuple[bytes, T]]],
    *,
    prefix: bytes,
    after: bytes | None,
    delimiter: bytes,
) -> Iterator[tuple[bytes, T | None]]:
    """(path, row) pairs in order; (common prefix, None) for all rows below a delimiter, which are passed over at once.

    Args:
        rows_after: gives the rows with the prefix after a path (exclusive).
        after: where the page before ended; a common prefix passes over all below it.
    """
    # A path that is the prefix itself ends with the delimiter, too, and what lies below it is what is asked for.
    if after is not None and delimiter and after.endswith(delimiter, len(prefix)):
        after += _PAST_ANY_TEXT
    rows = rows_after(after)
    while True:
        row = next(rows, None)
        if row is None:
            return
        key = row[0]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield row
            continue
        common = key[: cut + len(delimiter)]
        yield common, None
        rows = rows_after(common + _PAST_ANY_TEXT)
