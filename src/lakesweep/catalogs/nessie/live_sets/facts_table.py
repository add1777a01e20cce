"""lakesweep's own table beside nessie-gc's: facts of a live set, by name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, inspect, select, text

from lakesweep.catalogs.nessie.live_sets.rows import fact_rows
from lakesweep.catalogs.nessie.live_sets.schema import FACTS
from lakesweep.catalogs.nessie.live_sets.tables import FACT_ROWS, create_statement
from lakesweep.catalogs.nessie.live_sets.transactions import Transactions
from lakesweep.domain.live_sets import LiveSetId

__all__ = ["CREATED", "EXPIRY", "MARK", "FactsTable"]

CREATED = "created"  # when lakesweep's mark began: exact, and free of any zone a server may apply
MARK = "mark"  # what lakesweep's mark knew
EXPIRY = "expiry"  # when lakesweep began to expire the set, whoever marked it


class FactsTable:
    """Made when something is to be stored: a database that nessie-gc set up has none, and none is needed to read it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._is_known_to_exist = False

    def create_if_missing(self) -> None:
        if self._is_known_to_exist:
            return
        with self._transactions.reading() as connection:
            if self.exists(connection):
                return
        dialect = self._transactions.engine.dialect
        with self._transactions.writing() as connection:
            connection.execute(text(create_statement(FACTS, dialect, if_missing=True)))

    def exists(self, connection: Connection) -> bool:
        if not self._is_known_to_exist:
            self._is_known_to_exist = inspect(connection).has_table(FACTS.name)
        return self._is_known_to_exist

    def forget(self) -> None:
        """Look again: the tables were dropped or made anew."""
        self._is_known_to_exist = False

    def read(self, connection: Connection, live_set_id: LiveSetId, fact: str) -> str | None:
        """The fact's text, or None when it was not stored."""
        if not self.exists(connection):
            return None
        columns = FACT_ROWS.c
        parts = connection.execute(
            select(columns.fact_text)
            .where(columns.live_set_id == live_set_id, columns.fact == fact)
            .order_by(columns.part)
        ).scalars()
        return "".join(parts) or None

    def replace(
        self, connection: Connection, live_set_id: LiveSetId, fact: str, fact_text: str
    ) -> None:
        columns = FACT_ROWS.c
        connection.execute(
            delete(FACT_ROWS).where(columns.live_set_id == live_set_id, columns.fact == fact)
        )
        connection.execute(insert(FACT_ROWS), list(fact_rows(live_set_id, fact, fact_text)))

    def delete(self, connection: Connection, live_set_id: LiveSetId) -> None:
        if self.exists(connection):
            connection.execute(delete(FACT_ROWS).where(FACT_ROWS.c.live_set_id == live_set_id))
