"""The tables as SQLAlchemy sees them, and the SQL that makes them on each database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    DateTime,
    Dialect,
    Integer,
    TableClause,
    Text,
    column,
    inspect,
    table,
    text,
)
from sqlalchemy.types import TypeEngine

from lakesweep.catalogs.nessie.live_sets.schema import (
    CONTENTS,
    DEFERRED,
    FACTS,
    LIVE_SETS,
    LOCATIONS,
    NESSIE_GC_TABLES,
    SchemaStrategy,
    TableShape,
)
from lakesweep.errors import ConfigError

__all__ = [
    "CONTENT_ROWS",
    "DEFERRED_ROWS",
    "FACT_ROWS",
    "LIVE_SET_ROWS",
    "LOCATION_ROWS",
    "create_statement",
    "create_tables",
]

_TYPES: dict[str, TypeEngine[Any]] = {
    "VARCHAR": Text(),
    "TEXT": Text(),
    "TIMESTAMP": DateTime(),
    "BIGINT": BigInteger(),
    "INTEGER": Integer(),
}


def _rows_of(shape: TableShape) -> TableClause:
    return table(shape.name, *(column(c.name, _TYPES[c.type]) for c in shape.columns))


LIVE_SET_ROWS = _rows_of(LIVE_SETS)
CONTENT_ROWS = _rows_of(CONTENTS)
LOCATION_ROWS = _rows_of(LOCATIONS)
DEFERRED_ROWS = _rows_of(DEFERRED)
FACT_ROWS = _rows_of(FACTS)


def create_statement(shape: TableShape, dialect: Dialect, *, if_missing: bool = False) -> str:
    """The statement for one database: the common text, and what MariaDB and MySQL need beside it."""
    if dialect.name not in {"mysql", "mariadb"}:
        return shape.create_statement(if_missing=if_missing)
    # Names that differ by case or by a blank at the end are different names. And without the word NULL, older
    # servers set the first time of a row anew on every update.
    collation = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_bin"
    return shape.create_statement(
        time_type="TIMESTAMP NULL",
        options=f" CHARACTER SET utf8mb4 COLLATE {collation}",
        if_missing=if_missing,
    )


def create_tables(connection: Connection, strategy: SchemaStrategy) -> list[str]:
    """Run what the strategy asks for; returns the statements."""
    present = [s for s in NESSIE_GC_TABLES if inspect(connection).has_table(s.name)]
    if strategy is SchemaStrategy.CREATE and present:
        raise ConfigError(
            f"The database has {', '.join(shape.name for shape in present)} already. Nothing was changed. "
            "CREATE_IF_NOT_EXISTS keeps what is there; DROP_AND_CREATE removes it, with all live sets.",
            kind="schema-exists",
        )
    statements = []
    if strategy is SchemaStrategy.DROP_AND_CREATE:
        statements = [f"DROP TABLE {shape.name}" for shape in present]
        statements.append(f"DROP TABLE IF EXISTS {FACTS.name}")
        present = []
    missing = [shape for shape in NESSIE_GC_TABLES if shape not in present]
    statements += [create_statement(shape, connection.dialect) for shape in missing]
    statements.append(create_statement(FACTS, connection.dialect, if_missing=True))
    for statement in statements:
        connection.execute(text(statement))
    return statements
