"""nessie-gc's four tables, and the one of ours beside them, as columns and as SQL text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CONTENTS",
    "DEFERRED",
    "FACTS",
    "LIVE_SETS",
    "LOCATIONS",
    "NESSIE_GC_TABLES",
    "ColumnShape",
    "SchemaStrategy",
    "TableShape",
    "schema_script",
]


class SchemaStrategy(StrEnum):
    """What to do about tables that are there already; the names are nessie-gc's."""

    CREATE = "CREATE"
    DROP_AND_CREATE = "DROP_AND_CREATE"
    CREATE_IF_NOT_EXISTS = "CREATE_IF_NOT_EXISTS"


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column; `length` is how many characters it holds, where that is limited."""

    name: str
    type: str
    length: int | None = None

    @property
    def sql_type(self) -> str:
        return self.type if self.length is None else f"{self.type}({self.length})"


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table, its columns in order and the names of its primary key."""

    name: str
    columns: tuple[ColumnShape, ...]
    key: tuple[str, ...]

    def create_statement(
        self, *, time_type: str = "TIMESTAMP", options: str = "", if_missing: bool = False
    ) -> str:
        """The SQL that makes it; what a database needs beyond the common text comes as arguments."""
        lines = [
            f"    {column.name} {time_type if column.type == 'TIMESTAMP' else column.sql_type}"
            for column in self.columns
        ]
        lines.append(f"    PRIMARY KEY ({', '.join(self.key)})")
        guard = "IF NOT EXISTS " if if_missing else ""
        return f"CREATE TABLE {guard}{self.name} (\n" + ",\n".join(lines) + "\n)" + options


def _text(name: str, length: int) -> ColumnShape:
    return ColumnShape(name, "VARCHAR", length)


LIVE_SETS = TableShape(
    "gc_live_sets",
    (
        _text("live_set_id", 40),
        _text("set_status", 40),
        ColumnShape("identify_started", "TIMESTAMP"),
        ColumnShape("identify_finished", "TIMESTAMP"),
        ColumnShape("expire_started", "TIMESTAMP"),
        ColumnShape("expire_finished", "TIMESTAMP"),
        _text("error_message", 2000),
    ),
    key=("live_set_id",),
)
CONTENTS = TableShape(
    "gc_live_set_contents",
    (
        _text("live_set_id", 40),
        _text("content_id", 200),
        _text("commit_id", 100),
        _text("content_key", 500),
        _text("content_type", 40),
        _text("metadata_location", 1000),
        ColumnShape("snapshot_id", "BIGINT"),
    ),
    key=("live_set_id", "content_id", "commit_id"),
)
LOCATIONS = TableShape(
    "gc_live_set_content_locations",
    (_text("live_set_id", 40), _text("content_id", 200), _text("base_location", 500)),
    key=("live_set_id", "content_id", "base_location"),
)
DEFERRED = TableShape(
    "gc_file_deletions",
    (
        _text("live_set_id", 40),
        _text("base_uri", 250),
        _text("path_uri", 250),
        ColumnShape("modification_timestamp", "BIGINT"),  # milliseconds since 1970
    ),
    key=("live_set_id", "base_uri", "path_uri"),
)
# What lakesweep knows of a set beyond nessie-gc's columns. A fact may be longer than any type that all
# databases have, so it is kept in numbered parts.
FACTS = TableShape(
    "lakesweep_live_set_facts",
    (
        _text("live_set_id", 40),
        _text("fact", 40),
        ColumnShape("part", "INTEGER"),
        ColumnShape("fact_text", "TEXT"),
    ),
    key=("live_set_id", "fact", "part"),
)

NESSIE_GC_TABLES = (LIVE_SETS, CONTENTS, LOCATIONS, DEFERRED)


def schema_script() -> str:
    """The statements that make all tables, nessie-gc's first, each ended by a semicolon and a blank line."""
    return "".join(f"{table.create_statement()};\n\n" for table in (*NESSIE_GC_TABLES, FACTS))
