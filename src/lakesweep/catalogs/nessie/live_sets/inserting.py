"""Rows into a table in batches, each key once, and no row lost without a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sqlalchemy import Connection, TableClause, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from lakesweep.catalogs.nessie.live_sets.rows import Row
from lakesweep.errors import UnsafeToSweepError

__all__ = ["insert_new_rows"]

_BATCH_ROWS = 2_000
# Another process may add the same rows meanwhile; each round drops those that are there by then.
_ROUNDS = 5


def insert_new_rows(
    connection: Connection, table: TableClause, key: Sequence[str], rows: Iterable[Row]
) -> int:
    """Insert rows whose key is not there yet; returns how many.

    Not done with `INSERT IGNORE`, which would also cut long values and drop a row whose key differs from
    another's only by case, where the table compares without it.
    """
    return sum(_insert_batch(connection, table, key, batch) for batch in _batches(rows))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    source = iter(rows)
    while batch := list(islice(source, _BATCH_ROWS)):
        yield batch


def _insert_batch(
    connection: Connection, table: TableClause, key: Sequence[str], batch: list[Row]
) -> int:
    by_key = {tuple(row[name] for name in key): row for row in reversed(batch)}
    for _ in range(_ROUNDS):
        if not by_key:
            return 0
        try:
            with connection.begin_nested():
                connection.execute(insert(table), list(by_key.values()))
            return len(by_key)
        except IntegrityError:
            present = _present_keys(connection, table, key, by_key)
            if by_key.keys().isdisjoint(present):
                raise _clash(table, by_key) from None
            by_key = {k: row for k, row in by_key.items() if k not in present}
    raise _clash(table, by_key)


def _present_keys(
    connection: Connection,
    table: TableClause,
    key: Sequence[str],
    by_key: Iterable[tuple[object, ...]],
) -> set[tuple[object, ...]]:
    columns = [table.c[name] for name in key]
    found = connection.execute(select(*columns).where(tuple_(*columns).in_(list(by_key))))
    return {tuple(row) for row in found}


def _clash(table: TableClause, by_key: Iterable[tuple[object, ...]]) -> UnsafeToSweepError:
    first = next(iter(by_key))
    return UnsafeToSweepError(
        f"The table {table.name} takes two different names for one, {first!r} being among them: it compares "
        "text without regard to case or blanks. Nothing of this call was stored. Let "
        "`lakesweep nessie create-sql-schema --jdbc-schema DROP_AND_CREATE` make the tables, "
        "which removes the live sets in them.",
        kind="names-clash",
    )
