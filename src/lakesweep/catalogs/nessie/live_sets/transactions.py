"""Transactions on the live sets' tables: reading, streaming, writing while a set has a status, taking a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    TableClause,
    and_,
    func,
    or_,
    select,
    update,
)

from lakesweep.catalogs.nessie.live_sets import statuses
from lakesweep.catalogs.nessie.live_sets.connecting import is_mysql, translated
from lakesweep.catalogs.nessie.live_sets.rows import naive_utc
from lakesweep.catalogs.nessie.live_sets.tables import LIVE_SET_ROWS
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.errors import CatalogError

__all__ = ["Transactions"]

# Fewer rows than this only cost round trips.
_FEWEST_PAGE_ROWS = 10_000


class Transactions:
    """Each block is one transaction: committed when it ends, undone when it raises."""

    def __init__(self, engine: Engine, *, fetch_size: int) -> None:
        self.engine = engine
        self._page_rows = max(fetch_size, _FEWEST_PAGE_ROWS)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with translated(self.engine), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with (
            translated(self.engine),
            self.engine.connect().execution_options(is_writer=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def writing_while(
        self, live_set_id: LiveSetId, status: LiveSetStatus, doing: str
    ) -> Iterator[Connection]:
        """Write to a set that has to have this status."""
        with self.writing() as connection:
            actual = _status(connection, live_set_id)
            if actual != status:
                raise statuses.wrong_status(live_set_id, doing, {status}, actual)
            yield connection

    @contextmanager
    def moving(
        self, live_set_id: LiveSetId, step: statuses.Transition, **values: object
    ) -> Iterator[Connection]:
        """Take a step, and with it whatever the block writes. Of two that race, one is refused."""
        columns = LIVE_SET_ROWS.c
        with self.writing() as connection:
            moved = connection.execute(
                update(LIVE_SET_ROWS)
                .where(columns.live_set_id == live_set_id, columns.set_status.in_(step.sources))
                .values(
                    set_status=step.target.value,
                    # To itself: on older MariaDB servers, a table of nessie-gc's would set it to now.
                    identify_started=columns.identify_started,
                    **values,
                )
            )
            if moved.rowcount != 1:
                actual = _status(connection, live_set_id)
                raise statuses.wrong_status(live_set_id, step.doing, step.sources, actual)
            yield connection

    def move(self, live_set_id: LiveSetId, step: statuses.Transition, **values: object) -> None:
        """Take a step and nothing else."""
        with self.moving(live_set_id, step, **values):
            pass

    def stream(self, live_set_id: LiveSetId, table: TableClause, *key: str) -> Iterator[Any]:
        """A set's rows of one table in the order of its key, a page at a time.

        Pages, and not one long answer: a reader may work for minutes between two rows, for which no server
        would wait. A set that is deleted meanwhile is an error, not an end, and so are fewer rows than the table
        has: a damaged index leaves rows out, and what they name would look like garbage.
        """
        read = 0
        columns = [table.c[name] for name in key]
        of_this_set: Select[Any] = select(table).where(table.c.live_set_id == live_set_id)
        first_page = of_this_set.order_by(*columns).limit(self._page_rows)
        query = first_page
        while True:
            with self.reading() as connection:
                page = connection.execute(query).all()
                read += len(page)
                if len(page) < self._page_rows:
                    _status(connection, live_set_id)
                    _refuse_fewer_rows(connection, live_set_id, table, read)
            yield from page
            if len(page) < self._page_rows:
                return
            query = first_page.where(_is_behind(columns, [getattr(page[-1], name) for name in key]))

    def column_time(self, time: datetime) -> datetime:
        """An instant for a zone-less column. MySQL would round to the next second; a time is never made later."""
        value = naive_utc(time)
        return value.replace(microsecond=0) if is_mysql(self.engine) else value


def _is_behind(columns: Sequence[ColumnElement[Any]], last: Sequence[Any]) -> ColumnElement[bool]:
    """Rows that come after `last`; the first comparison alone tells the server where in its index to begin."""
    first, second = columns
    return and_(first >= last[0], or_(first > last[0], second > last[1]))


def _refuse_fewer_rows(
    connection: Connection, live_set_id: LiveSetId, table: TableClause, read: int
) -> None:
    of_this_set = table.c.live_set_id == live_set_id
    there = connection.execute(select(func.count()).select_from(table).where(of_this_set))
    rows: int = there.scalar_one()
    if read < rows:
        raise CatalogError(
            f"The database gave {read} of {rows} rows that {table.name} has of live set {live_set_id}, and what the "
            "others name would look like garbage. Nothing was done with them. Run again; if it stays so, have the table's "
            "index checked.",
            kind="live-sets",
        )


def _status(connection: Connection, live_set_id: LiveSetId) -> str:
    columns = LIVE_SET_ROWS.c
    found = connection.execute(
        select(columns.set_status).where(columns.live_set_id == live_set_id)
    ).first()
    if found is None:
        raise statuses.no_such_live_set(live_set_id)
    return str(found[0])
