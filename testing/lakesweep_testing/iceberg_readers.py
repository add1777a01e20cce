"""Rows of tables at commits of a Nessie catalog, through pyiceberg and through Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import Table

from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.nessie_walk import LiveStates, State
from lakesweep_testing.servers.spark_writer import CATALOG, SparkIcebergWriter
from lakesweep_testing.table_places import plain

__all__ = [
    "Rows",
    "files_by_spark",
    "has_equality_deletes",
    "rows_by_pyiceberg",
    "rows_by_spark",
]

Rows = dict[State, list[str]]

_TABLES_PER_STATEMENT = 25


def rows_by_pyiceberg(oracle: IcebergOracle, states: Iterable[State]) -> Rows:
    """Every row of each state that pyiceberg can read, as sorted lines of JSON."""
    return {
        state: sorted(_scan(oracle, state))
        for state in states
        if not has_equality_deletes(oracle.table(state))
    }


def has_equality_deletes(table: Table) -> bool:
    """Whether a table's current snapshot has equality delete files, which pyiceberg does not read."""
    snapshot = table.current_snapshot()
    return any(
        entry.data_file.content == DataFileContent.EQUALITY_DELETES
        for manifest in (snapshot.manifests(table.io) if snapshot else ())
        if manifest.content == ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
    )


def rows_by_spark(spark: SparkIcebergWriter, live: LiveStates) -> Rows:
    """Every row of every table at every live commit, as Spark reads it; a state that several commits have is read at one."""
    names = _spark_names(live)
    found: Rows = {state: [] for state in names}
    tables = list(names.items())
    for start in range(0, len(tables), _TABLES_PER_STATEMENT):
        batch = tables[start : start + _TABLES_PER_STATEMENT]
        selects = [
            f"SELECT {number} AS n, to_json(struct(*), map('ignoreNullFields', 'false')) AS line FROM {name}"
            for number, (_, name) in enumerate(batch)
        ]
        for row in _union(spark, selects):
            found[batch[row["n"]][0]].append(_line(json.loads(row["line"])))
    return {state: sorted(lines) for state, lines in found.items()}


def files_by_spark(spark: SparkIcebergWriter, live: LiveStates) -> set[str]:
    """Files of all snapshots by Iceberg's own metadata tables: data, deletes, manifests, and lists of these."""
    columns = {"all_files": "file_path", "all_manifests": "path", "snapshots": "manifest_list"}
    selects = [
        f"SELECT {column} AS path FROM {name}.{table}"
        for name in _spark_names(live).values()
        for table, column in columns.items()
    ]
    return {plain(row["path"]) for row in _union(spark, selects)}


def _spark_names(live: LiveStates) -> dict[State, str]:
    """How Spark names each state: by its key, at a commit of a reference."""
    names: dict[State, str] = {}
    for commit, (reference, states) in live.commits.items():
        for key, state in states.items():
            if state.kind == "ICEBERG_TABLE":
                folders = ".".join(key[:-1])
                names.setdefault(state, f"{CATALOG}.{folders}.`{key[-1]}@{reference}#{commit}`")
    return names


def _union(spark: SparkIcebergWriter, selects: Sequence[str]) -> list[dict[str, Any]]:
    # Iceberg takes a commit that it last saw as a branch's head for the branch, and reads what is there now.
    return spark.sql(f"USE REFERENCE main IN {CATALOG}", " UNION ALL ".join(selects), timeout=180)


def _scan(oracle: IcebergOracle, state: State) -> Iterator[str]:
    if state.snapshot_id < 0:
        return
    found = oracle.table(state).scan(snapshot_id=state.snapshot_id).to_arrow()
    for row in found.to_pylist():
        yield _line(row)


def _line(row: dict[str, object]) -> str:
    return json.dumps(row, sort_keys=True)
