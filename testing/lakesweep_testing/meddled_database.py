"""Trouble between live sets and their database: somebody sees every statement and every commit, and may do otherwise."""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from sqlalchemy.engine.cursor import FullyBufferedCursorFetchStrategy
from sqlalchemy.engine.default import DefaultDialect

__all__ = ["COMMIT", "QUERY", "STATEMENT", "DatabaseCall", "through_database"]

QUERY, STATEMENT, COMMIT = "query", "statement", "commit"
_TABLE = re.compile(r"(?:FROM|INTO|UPDATE|TABLE(?: IF NOT EXISTS)?)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class DatabaseCall:
    """One statement or commit on its way to SQLite; nothing is carried out before `carry_out` is called."""

    kind: str
    name: str  # the verb and the table; of a commit, those of the statement before it
    text: str
    carry_out: Callable[[], object]
    lose_connection: Callable[[], object]
    change_rows: Callable[[Callable[[Sequence[Any]], Sequence[Any]]], object]


@contextmanager
def through_database(meddle: Callable[[DatabaseCall], object]) -> Iterator[None]:
    """Hand every statement and every commit that SQLAlchemy sends to somebody in between."""
    last = [""]

    def execute(send: Callable[..., None]) -> Callable[..., None]:
        def meddled(
            self: Any, cursor: Any, statement: str, parameters: Any, context: Any = None
        ) -> None:
            verb = statement.split(None, 1)[0]
            table = _TABLE.search(statement)
            last[0] = f"{verb} {table[1]}" if table else verb
            connection: sqlite3.Connection = cursor.connection

            def lose_connection() -> None:
                cursor.close()  # an answer that nobody read would keep the transaction and its lock
                connection.close()

            def change_rows(change: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
                send(self, cursor, statement, parameters, context)
                rows = deque(change(cursor.fetchall()))
                context.cursor_fetch_strategy = FullyBufferedCursorFetchStrategy(
                    cursor.description, initial_buffer=rows
                )

            meddle(
                DatabaseCall(
                    QUERY if verb == "SELECT" else STATEMENT,
                    last[0],
                    statement,
                    lambda: send(self, cursor, statement, parameters, context),
                    lose_connection,
                    change_rows,
                )
            )

        return meddled

    commit: Callable[[Any, Any], object] = DefaultDialect.do_commit

    def meddled_commit(self: Any, connection: Any) -> None:
        def no_rows(_: object) -> None:
            raise AssertionError("a commit answers with no rows")

        close = connection.driver_connection.close
        name = f"after {last[0]}"
        meddle(
            DatabaseCall(COMMIT, name, "COMMIT", lambda: commit(self, connection), close, no_rows)
        )

    with (
        patch.object(DefaultDialect, "do_execute", execute(DefaultDialect.do_execute)),
        patch.object(DefaultDialect, "do_executemany", execute(DefaultDialect.do_executemany)),
        patch.object(DefaultDialect, "do_commit", meddled_commit),
    ):
        yield
