"""A catalog under change: how Spark, pyiceberg and Nessie's own REST take one step, and what rows tables have after it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lakesweep_testing.iceberg_readers import has_equality_deletes
from lakesweep_testing.nessie_contents import Key
from lakesweep_testing.nessie_walk import NessieWalk, State
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.pyiceberg_user import PyIcebergUser
from lakesweep_testing.servers.spark_writer import SparkIcebergWriter
from lakesweep_testing.table_places import TablePlace

__all__ = [
    "SCHEMA",
    "CatalogUnderChange",
    "Ids",
    "any_table",
    "known_warnings",
    "rows_of",
    "same",
    "select_of",
]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("name", pa.string())])
_NEWEST_THAT_PYICEBERG_WRITES = 2

Ids = tuple[int, ...]
Change = Callable[[Ids], Ids]  # the ids in a table before and after a step


def same(ids: Ids) -> Ids:
    """A step that leaves the rows as they are."""
    return ids


def any_table(_: Table) -> bool:
    """Whatever pyiceberg can write to."""
    return True


@dataclass(slots=True)
class CatalogUnderChange:
    """Takes single steps. What rows a table should have is known from the steps themselves, not by reading it.

    `rows` has them by the metadata file that each step ended with.
    """

    dice: random.Random
    namespace: str
    place: TablePlace
    spark: SparkIcebergWriter
    spark_catalog: str  # whose warehouse lies in that place
    nessie: NessieWriter
    walk: NessieWalk
    rest: Callable[[str], Catalog] | None = None  # Nessie's Iceberg REST catalog on a branch
    is_tame: bool = False  # no table inside another, no strange file names
    story: list[str] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)  # one before each step
    rows: dict[str, Ids] = field(default_factory=dict)  # metadata location → ids, in order
    cut_off: set[str] = field(default_factory=set)  # commits that nobody goes back to
    _numbers: int = 0

    def _spark_on_table(
        self,
        branch: str,
        statement: str,
        change: Change = same,
        is_fit: Callable[[Key, State], bool] = lambda key, state: True,
    ) -> bool:
        found = self._tables(branch)
        tables = sorted(key for key, state in found.items() if is_fit(key, state))
        if not tables:
            return False
        key = self.dice.choice(tables)
        words = {
            "name": self._name(key),
            "table": ".".join(key),
            "catalog": self.spark_catalog,
        }
        self._spark(branch, statement.format(**words))
        self._wrote(branch, key, change(self.rows[found[key].metadata_location]))
        return self._told(f"{branch}: {statement.format(**words)}")

    def _spark(self, branch: str, statement: str) -> None:
        self.spark.sql(f"USE REFERENCE `{branch}` IN {self.spark_catalog}", statement)

    def _py_on_table(
        self,
        branch: str,
        verb: str,
        change: Callable[[Table, Ids], Ids],
        is_fit: Callable[[Table], bool] = lambda found: not has_equality_deletes(found),
    ) -> bool:
        tables = self._tables(branch)
        if not tables:
            return False
        key = self.dice.choice(sorted(tables))
        found = self._open(tables[key])
        if found.metadata.format_version > _NEWEST_THAT_PYICEBERG_WRITES or not is_fit(found):
            return False
        with known_warnings():
            ids = change(found, self.rows[tables[key].metadata_location])
        if found.metadata_location != tables[key].metadata_location:
            self._py.commit(branch, key, found)
        self._wrote(branch, key, ids)
        return self._told(f"{branch}: pyiceberg {verb} {key}")

    def _wrote(self, branch: str, key: Key, ids: Ids) -> None:
        self.rows[self._tables(branch)[key].metadata_location] = tuple(sorted(ids))

    @property
    def _py(self) -> PyIcebergUser:
        return PyIcebergUser(self.place, self.nessie)

    def _open(self, state: State) -> Table:
        return self._py.open(state.metadata_location)

    def _tables(self, branch: str) -> dict[Key, State]:
        found = self.walk.state(self.nessie.head(branch))
        return {key: state for key, state in found.items() if state.kind == "ICEBERG_TABLE"}

    def _branches(self) -> list[str]:
        found = self.walk.references()
        return sorted(name for name, (kind, _) in found.items() if kind == "BRANCH")

    def _some_commit(self, branch: str) -> str:
        log = self.walk.log(branch, self.nessie.head(branch))
        hashes = [str(entry["commitMeta"]["hash"]) for entry in log[:6]]
        return self.dice.choice([one for one in hashes if one not in self.cut_off])

    def _new_key(self, writer: str) -> Key:
        return (self.namespace, f"{writer}_{self._number()}")

    def _name(self, key: Key) -> str:
        return ".".join((self.spark_catalog, *key))

    def _ids(self) -> Ids:
        """Ids that no row has yet."""
        start = self._number() * 10
        return tuple(range(start, start + self.dice.randrange(1, 9)))

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _told(self, what: str) -> bool:
        self.story.append(what)
        return True


def select_of(ids: Sequence[int]) -> str:
    """Spark's words for rows with these ids, which follow one another."""
    return (
        "SELECT id, CAST(id % 2 AS INT) AS part, concat('spark-', id) AS name "
        f"FROM range({ids[0]}, {ids[-1] + 1}, 1, 1)"
    )


def rows_of(ids: Sequence[int]) -> pa.Table:
    """Rows with these ids."""
    columns = [list(ids), [i % 2 for i in ids], [f"py-{i}" for i in ids]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


@contextmanager
def known_warnings() -> Iterator[None]:
    """pyiceberg warns of a delete that finds no row, and of one that rewrites files."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match|Merge on read is not yet")
        yield
