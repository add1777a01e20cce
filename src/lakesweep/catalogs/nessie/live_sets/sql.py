"""Live sets in PostgreSQL, MariaDB, MySQL or SQLite, in nessie-gc's own tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Connection, Engine, LargeBinary, and_, cast, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from lakesweep.catalogs.nessie.live_sets import statuses
from lakesweep.catalogs.nessie.live_sets.connecting import is_mysql
from lakesweep.catalogs.nessie.live_sets.facts_table import CREATED, EXPIRY, MARK, FactsTable
from lakesweep.catalogs.nessie.live_sets.inserting import insert_new_rows
from lakesweep.catalogs.nessie.live_sets.rows import (
    content_row,
    deferred_row,
    location_row,
    read_content,
    read_deferred,
    read_kind,
    read_live_set,
)
from lakesweep.catalogs.nessie.live_sets.schema import (
    CONTENTS,
    DEFERRED,
    FACTS,
    LOCATIONS,
    SchemaStrategy,
)
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.catalogs.nessie.live_sets.tables import (
    CONTENT_ROWS,
    DEFERRED_ROWS,
    FACT_ROWS,
    LIVE_SET_ROWS,
    LOCATION_ROWS,
    create_tables,
)
from lakesweep.catalogs.nessie.live_sets.transactions import Transactions
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import (
    ContentReference,
    DeferredFile,
    LiveSet,
    LiveSetId,
    LiveSetStatus,
    MarkFacts,
    cut_error_message,
)
from lakesweep.errors import FormatError

__all__ = ["SqlLiveSets"]

_UNFINISHED_MARKS = {LiveSetStatus.IDENTIFY_IN_PROGRESS, LiveSetStatus.IDENTIFY_FAILED}


class SqlLiveSets:
    """Every step is one transaction; every status change one conditional UPDATE. Threads may share it."""

    def __init__(self, engine: Engine, *, fetch_size: int = 100) -> None:
        self._engine = engine
        self._transactions = Transactions(engine, fetch_size=fetch_size)
        self._facts = FactsTable(self._transactions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back all connections."""
        self._engine.dispose()

    @property
    def local_file(self) -> str | None:
        """The SQLite file; other databases keep to themselves where they lie."""
        url = self._engine.url
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            return None
        return f"file://{os.path.abspath(url.database)}"

    def create_schema(self, strategy: SchemaStrategy) -> list[str]:
        self._facts.forget()
        with self._transactions.writing() as connection:
            return create_tables(connection, strategy)

    # The mark.

    def start_identify(self, live_set_id: LiveSetId, created: datetime) -> None:
        row = {
            "live_set_id": live_set_id,
            "set_status": LiveSetStatus.IDENTIFY_IN_PROGRESS.value,
            "identify_started": self._transactions.column_time(created),
        }
        self._facts.create_if_missing()
        with self._transactions.writing() as connection:
            try:
                connection.execute(insert(LIVE_SET_ROWS), row)
            except IntegrityError:
                raise statuses.live_set_exists(live_set_id) from None
            self._facts.replace(connection, live_set_id, CREATED, format_time(created))

    def add_contents(self, live_set_id: LiveSetId, references: Iterable[ContentReference]) -> int:
        status = LiveSetStatus.IDENTIFY_IN_PROGRESS
        with self._transactions.writing_while(live_set_id, status, "add contents") as connection:
            new = (content_row(live_set_id, reference) for reference in references)
            return insert_new_rows(connection, CONTENT_ROWS, CONTENTS.key, new)

    def finish_identify(self, live_set_id: LiveSetId, at: datetime, facts: MarkFacts) -> None:
        finished = self._transactions.column_time(at)
        with self._transactions.moving(
            live_set_id, statuses.FINISH_IDENTIFY, identify_finished=finished, error_message=None
        ) as connection:
            self._facts.replace(connection, live_set_id, MARK, facts.to_json())

    def fail_identify(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        self._transactions.move(
            live_set_id,
            statuses.FAIL_IDENTIFY,
            identify_finished=self._transactions.column_time(at),
            error_message=cut_error_message(error),
        )

    # The expiry.

    def start_expire(
        self, live_set_id: LiveSetId, at: datetime, *, again: bool = False, work: str = ""
    ) -> None:
        self._facts.create_if_missing()
        step = statuses.START_EXPIRE
        if again and self._fact(live_set_id, EXPIRY) is not None:
            step = statuses.REPEAT_EXPIRE
        with self._transactions.moving(
            live_set_id,
            step,
            expire_started=self._transactions.column_time(at),
            expire_finished=None,
            error_message=None,
        ) as connection:
            self._facts.replace(connection, live_set_id, EXPIRY, f"{format_time(at)} {work}")

    def work_of(self, live_set_id: LiveSetId) -> str | None:
        return (self._fact(live_set_id, EXPIRY) or "").partition(" ")[2] or None

    def finish_expire(self, live_set_id: LiveSetId, at: datetime) -> None:
        finished = self._transactions.column_time(at)
        self._transactions.move(
            live_set_id, statuses.FINISH_EXPIRE, expire_finished=finished, error_message=None
        )

    def fail_expire(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        self._transactions.move(
            live_set_id,
            statuses.FAIL_EXPIRE,
            expire_finished=self._transactions.column_time(at),
            error_message=cut_error_message(error),
        )

    def add_base_locations(self, live_set_id: LiveSetId, rows: Iterable[tuple[str, str]]) -> None:
        with self._expiring(live_set_id, "add base locations") as connection:
            new = (location_row(live_set_id, content_id, uri) for content_id, uri in rows)
            insert_new_rows(connection, LOCATION_ROWS, LOCATIONS.key, new)

    def add_deferred(self, live_set_id: LiveSetId, files: Iterable[DeferredFile]) -> int:
        with self._expiring(live_set_id, "record files for a later delete") as connection:
            new = (deferred_row(live_set_id, file) for file in files)
            return insert_new_rows(connection, DEFERRED_ROWS, DEFERRED.key, new)

    def clear_deferred(self, live_set_id: LiveSetId) -> None:
        with self._expiring(live_set_id, "clear the recorded files") as connection:
            connection.execute(
                delete(DEFERRED_ROWS).where(DEFERRED_ROWS.c.live_set_id == live_set_id)
            )

    # What is there.

    def get(self, live_set_id: LiveSetId) -> LiveSet:
        found = self._live_sets(LIVE_SET_ROWS.c.live_set_id == live_set_id)
        if not found:
            raise statuses.no_such_live_set(live_set_id)
        return found[0]

    def all(self) -> list[LiveSet]:
        return sorted(self._live_sets(), key=lambda live_set: live_set.created, reverse=True)

    def facts(self, live_set_id: LiveSetId) -> MarkFacts | None:
        live_set = self.get(live_set_id)
        mark = self._fact(live_set_id, MARK)
        if mark is not None:
            return MarkFacts.from_json(mark)
        is_ours = self._fact(live_set_id, CREATED) is not None
        if is_ours and live_set.status not in _UNFINISHED_MARKS:
            raise FormatError(
                f"Live set {live_set_id} was marked by lakesweep, but what the mark knew is missing in "
                f"{FACTS.name}. Nothing was deleted. Mark again.",
                kind="damaged-mark-facts",
            )
        return None

    def contents(self, live_set_id: LiveSetId) -> Iterator[ContentReference]:
        rows = self._transactions.stream(live_set_id, CONTENT_ROWS, "content_id", "commit_id")
        return map(read_content, rows)

    def distinct_contents(self, live_set_id: LiveSetId) -> Iterator[DistinctContent]:
        # Told apart here and not by SELECT DISTINCT: a table may compare text without regard to case, and two
        # locations that differ by case are two live files.
        content_id = None
        seen: set[DistinctContent] = set()
        for row in self._transactions.stream(live_set_id, CONTENT_ROWS, "content_id", "commit_id"):
            if row.content_id != content_id:
                content_id, seen = row.content_id, set()
            state = DistinctContent(
                row.content_id, read_kind(row), row.metadata_location, row.snapshot_id
            )
            if state not in seen:
                seen.add(state)
                yield state

    def content_count(self, live_set_id: LiveSetId) -> int:
        self.get(live_set_id)
        column: Any = CONTENT_ROWS.c.content_id
        counted = cast(column, LargeBinary) if is_mysql(self._engine) else column
        query = select(func.count(counted.distinct()))
        with self._transactions.reading() as connection:
            count: int = connection.execute(
                query.where(CONTENT_ROWS.c.live_set_id == live_set_id)
            ).scalar_one()
        return count

    def base_locations(self, live_set_id: LiveSetId) -> Iterator[tuple[str, str]]:
        order = ("content_id", "base_location")
        for row in self._transactions.stream(live_set_id, LOCATION_ROWS, *order):
            yield row.content_id, row.base_location

    def deferred(self, live_set_id: LiveSetId) -> Iterator[DeferredFile]:
        rows = self._transactions.stream(live_set_id, DEFERRED_ROWS, "base_uri", "path_uri")
        return map(read_deferred, rows)

    def delete(self, live_set_id: LiveSetId) -> None:
        with self._transactions.writing() as connection:
            self._facts.delete(connection, live_set_id)
            for table in (DEFERRED_ROWS, LOCATION_ROWS, CONTENT_ROWS):
                connection.execute(delete(table).where(table.c.live_set_id == live_set_id))
            gone = connection.execute(
                delete(LIVE_SET_ROWS).where(LIVE_SET_ROWS.c.live_set_id == live_set_id)
            )
            if gone.rowcount != 1:
                raise statuses.no_such_live_set(live_set_id)

    def _expiring(self, live_set_id: LiveSetId, doing: str) -> AbstractContextManager[Connection]:
        status = LiveSetStatus.EXPIRY_IN_PROGRESS
        return self._transactions.writing_while(live_set_id, status, doing)

    def _fact(self, live_set_id: LiveSetId, fact: str) -> str | None:
        with self._transactions.reading() as connection:
            return self._facts.read(connection, live_set_id, fact)

    def _live_sets(self, *conditions: Any) -> list[LiveSet]:
        with self._transactions.reading() as connection:
            if not self._facts.exists(connection):
                found = connection.execute(select(LIVE_SET_ROWS).where(*conditions))
                return [read_live_set(row, None) for row in found]
            noted = and_(
                FACT_ROWS.c.live_set_id == LIVE_SET_ROWS.c.live_set_id, FACT_ROWS.c.fact == CREATED
            )
            joined = LIVE_SET_ROWS.outerjoin(FACT_ROWS, noted)
            query = select(LIVE_SET_ROWS, FACT_ROWS.c.fact_text).select_from(joined)
            return [
                read_live_set(row, row.fact_text)
                for row in connection.execute(query.where(*conditions))
            ]
