"""A mark looked through page by page, with one file of it in memory at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.parts import Part
from lakesweep.formats.damage import named_damage
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import ObjectStore

__all__ = ["MarkPage", "MarkedObject", "Position", "browse_mark"]

# A search for what is rare is answered in pieces: after this time with what was found so far.
_LONGEST_SECONDS = 3.0
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class MarkedObject:
    """One object that a mark names. The time is None where only a commit told of the object."""

    address: str
    size_bytes: int | None
    last_modified: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Position:
    """A row of a mark: the number of its part, and the row in it."""

    part: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class MarkPage:
    """Some objects of a mark that fit a search, in the mark's own order. `next` is None at the mark's end."""

    objects: tuple[MarkedObject, ...]
    next: Position | None
    rows_seen: int  # from the mark's beginning to `next`


def browse_mark(
    store: ObjectStore,
    parts: Sequence[Part],
    *,
    prefix: str = "",
    reason: str = "",
    start: Position = Position(),  # noqa: B008 (frozen)
    limit: int = 100,
    clock: Callable[[], float] = time.monotonic,
) -> MarkPage:
    """Objects from `start` on whose address begins with `prefix` and whose reason is `reason`, where these are given."""
    ends_at = clock() + _LONGEST_SECONDS
    found: list[MarkedObject] = []
    number, row = start.part, start.row
    while number < len(parts):
        with named_damage(parts[number].key):
            table = read_mark(store.read(parts[number].key))
        while row < table.num_rows:
            rows = table.slice(row, _ROWS_AT_ONCE)
            fitting = _fitting(rows, prefix, reason)
            wanted = limit - len(found)
            found += _objects(rows.take(fitting.slice(0, wanted)))
            if len(fitting) > wanted:
                row += fitting[wanted].as_py()
                return _page(found, parts, Position(number, row))
            row += rows.num_rows
            if row < table.num_rows and clock() >= ends_at:
                return _page(found, parts, Position(number, row))
        number, row = number + 1, 0
        if number < len(parts) and clock() >= ends_at:
            return _page(found, parts, Position(number, 0))
    return _page(found, parts, None)


def _fitting(rows: pa.Table, prefix: str, reason: str) -> pa.Array:
    """The numbers of the rows that fit."""
    fits = pc.starts_with(rows.column("address"), prefix)
    if reason:
        fits = pc.and_(fits, pc.fill_null(pc.equal(rows.column("reason"), reason), False))
    return pc.indices_nonzero(fits)


def _objects(rows: pa.Table) -> list[MarkedObject]:
    columns = [rows.column(name).to_pylist() for name in MARK_SCHEMA.names]
    return [
        MarkedObject(address, size, modified, why or "")
        for address, size, modified, why in zip(*columns, strict=True)
    ]


def _page(found: list[MarkedObject], parts: Sequence[Part], at: Position | None) -> MarkPage:
    ended = parts if at is None else parts[: at.part]
    seen = sum(part.rows for part in ended) + (0 if at is None else at.row)
    return MarkPage(tuple(found), at, seen)
