"""Catalogs written at random by Spark, by pyiceberg and over Nessie's own REST: what users do, in any order."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lakesweep.testing.nessie_contents import Key, namespace
from lakesweep.testing.nessie_walk import NessieWalk, State
from lakesweep.testing.nessie_writer import NessieWriter
from lakesweep.testing.pyiceberg_user import PyIcebergUser
from lakesweep.testing.servers.spark_writer import SparkIcebergWriter
from lakesweep.testing.table_places import TablePlace

__all__ = ["RandomCatalog"]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32()), ("name", pa.string())])

_PROPERTIES = (
    {"format-version": "1"},
    {"format-version": "2", "write.metadata.compression-codec": "gzip"},
    {"format-version": "2", "write.delete.mode": "merge-on-read"},
    {"format-version": "3", "write.delete.mode": "merge-on-read"},
)
_NEWEST_THAT_PYICEBERG_WRITES = 2
_NAMES = ("stray.parquet", "part=1/stray.avro")
_ODD_NAMES = ("stray.parquet", "a b.parquet", "part=1/x%20y.parquet", "ä+&.avro", "deep/er/_tmp")


@dataclass(slots=True)
class RandomCatalog:
    """One catalog under change. Every step is a user's verb, and says in `story` what it did."""

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
    _numbers: int = 0
    _views: int = 0

    def begin(self) -> None:
        """A few tables on main, each by another writer."""
        self.nessie.commit("main", {(self.namespace,): namespace((self.namespace,))})
        for properties in (self.dice.choice(_PROPERTIES[:2]), self.dice.choice(_PROPERTIES[2:])):
            self.spark_create("main", properties)
        self.py_create("main")
        if self.rest is not None:
            self.rest_create("main")

    def run(self, steps: int) -> None:
        """Take steps at random; what can't be done at the moment is another step."""
        verbs = [verb for verb, weight in self._weights().items() for _ in range(weight)]
        while steps:
            self.times.append(datetime.now(UTC))
            verb = self.dice.choice(verbs)
            branch = self.dice.choice(self._branches())
            if verb(branch):
                steps -= 1

    def _weights(self) -> dict[Callable[[str], bool], int]:
        weights: dict[Callable[[str], bool], int] = {
            self.spark_append: 3,
            self.spark_overwrite: 1,
            self.spark_delete_rows: 3,
            self.spark_compact: 1,
            self.spark_statistics: 1,
            self.spark_view: 1,
            self.spark_create: 2,
            self.py_create: 2,
            self.py_replace: 0 if self.is_tame else 2,
            self.py_append: 5,
            self.py_overwrite: 3,
            self.py_delete_rows: 3,
            self.py_expire_snapshots: 2,
            self.leave_strays: 3,
            self.branch_off: 3,
            self.tag: 2,
            self.merge: 4,
            self.rename: 2,
            self.drop: 3,
            self.forget_reference: 2,
            self.move_reference: 1,
        }
        return weights | ({self.rest_write: 4} if self.rest is not None else {})

    # Spark.

    def spark_create(self, branch: str, properties: dict[str, str] | None = None) -> bool:
        key = self._new_key("spark")
        chosen = properties or self.dice.choice(_PROPERTIES)
        words = ", ".join(f"'{k}'='{v}'" for k, v in chosen.items())
        partitioned = " PARTITIONED BY (part)" if self.dice.random() < 0.4 else ""
        location = self._new_location(branch, key)
        at = f" LOCATION '{location}'" if location else ""
        self._spark(
            branch,
            f"CREATE TABLE {self._name(key)} USING iceberg{partitioned}{at} TBLPROPERTIES ({words}) "
            f"AS {self._select()}",
        )
        return self._told(f"{branch}: Spark creates {key} {chosen}{partitioned}{at}")

    def spark_append(self, branch: str) -> bool:
        return self._spark_on_table(branch, "INSERT INTO {name} " + self._select())

    def spark_overwrite(self, branch: str) -> bool:
        return self._spark_on_table(branch, "INSERT OVERWRITE {name} " + self._select())

    def spark_delete_rows(self, branch: str) -> bool:
        rest = self.dice.randrange(3)
        # Those that Spark made have modes of deleting.
        return self._spark_on_table(
            branch, f"DELETE FROM {{name}} WHERE id % 3 = {rest}", lambda key, _: "spark" in key[-1]
        )

    def spark_compact(self, branch: str) -> bool:
        return self._spark_on_table(
            branch,
            "CALL {catalog}.system.rewrite_data_files(table => '{table}', "
            "options => map('rewrite-all', 'true'))",
        )

    def spark_statistics(self, branch: str) -> bool:
        if self.dice.random() < 0.5:
            call = "CALL {catalog}.system.compute_table_stats(table => '{table}')"
            return self._spark_on_table(branch, call)
        call = "CALL {catalog}.system.compute_partition_stats(table => '{table}')"
        return self._spark_on_table(
            branch, call, lambda _, state: not self._open(state).spec().is_unpartitioned()
        )

    def spark_view(self, branch: str) -> bool:
        self._views += 1
        view = f"{self.spark_catalog}.{self.namespace}.view_{self._views % 3}"
        self._spark(branch, f"CREATE OR REPLACE VIEW {view} AS SELECT {self._views} AS id")
        return self._told(f"{branch}: Spark replaces {view}")

    # pyiceberg.

    def py_create(self, branch: str) -> bool:
        return self._py_create(branch)

    def _py_create(self, branch: str, location: str | None = None) -> bool:
        key = self._new_key("py")
        location = location or self._new_location(branch, key)
        location = location or f"{self.place.root}/{'/'.join(key)}"
        made = self._py.create(SCHEMA, location, {"format-version": self.dice.choice("12")})
        made.append(self._rows())
        self._py.commit(branch, key, made)
        return self._told(f"{branch}: pyiceberg creates {key} at {location}")

    def py_replace(self, branch: str) -> bool:
        """Drop a table and make another in its place; the first may live on elsewhere."""
        tables = self._tables(branch)
        if not tables:
            return False
        old = self.dice.choice(sorted(tables))
        self.nessie.commit(branch, deletes=[old])
        return self._py_create(branch, self._open(tables[old]).location())

    def py_append(self, branch: str) -> bool:
        return self._py_on_table(branch, "appends", lambda t: t.append(self._rows()))

    def py_overwrite(self, branch: str) -> bool:
        return self._py_on_table(branch, "overwrites", lambda t: t.overwrite(self._rows()))

    def py_delete_rows(self, branch: str) -> bool:
        condition = f"id < {self.dice.randrange(60)}"
        return self._py_on_table(branch, "deletes rows", lambda t: t.delete(condition))

    def py_expire_snapshots(self, branch: str) -> bool:
        def expire(found: Table) -> None:
            old = [s.snapshot_id for s in found.snapshots()][:-1]
            if old:
                found.maintenance.expire_snapshots().by_ids(old).commit()

        return self._py_on_table(branch, "expires snapshots", expire)

    # Nessie's Iceberg REST catalog, which writes the metadata itself.

    def rest_create(self, branch: str) -> bool:
        key = self._new_key("rest")
        assert self.rest is not None
        self.rest(branch).create_table(key, SCHEMA).append(self._rows())
        return self._told(f"{branch}: REST creates {key}")

    def rest_write(self, branch: str) -> bool:
        assert self.rest is not None
        own = [key for key in self._tables(branch) if key[-1].startswith("rest")]
        if not own:
            return False
        key = self.dice.choice(own)
        found = self.rest(branch).load_table(key)
        is_append = self.dice.random() < 0.5
        with _known_warnings():
            (found.append if is_append else found.overwrite)(self._rows())
        return self._told(f"{branch}: REST {'appends to' if is_append else 'overwrites'} {key}")

    # Nessie, and the lake itself.

    def leave_strays(self, branch: str) -> bool:
        """Files of writers that died before their commit."""
        tables = self._tables(branch)
        if not tables:
            return False
        key = self.dice.choice(sorted(tables))
        location = self._open(tables[key]).location()
        for name in self.dice.sample(_NAMES if self.is_tame else _ODD_NAMES, 2):
            folder = self.dice.choice(["data", "metadata"])
            self.place.write(f"{location}/{folder}/{name}", b"nobody needs this")
        return self._told(f"strays in {location}")

    def branch_off(self, branch: str) -> bool:
        if len(self._branches()) > 3:
            return False
        name = f"dev-{self._number()}"
        self.nessie.create_branch(name, branch, self._some_commit(branch))
        return self._told(f"branch {name} from {branch}")

    def tag(self, branch: str) -> bool:
        name = f"v{self._number()}"
        self.nessie.create_tag(name, branch, self._some_commit(branch))
        return self._told(f"tag {name} on {branch}")

    def merge(self, branch: str) -> bool:
        others = [other for other in self._branches() if other != branch]
        if not others:
            return False
        source = self.dice.choice(others)
        try:
            self.nessie.merge(source, branch, force=self.dice.random() < 0.7)
        except httpx.HTTPStatusError as refusal:
            # A conflict, or nothing to merge: users are told so too.
            if refusal.response.status_code not in (400, 409):
                raise
            return False
        return self._told(f"merge {source} into {branch}")

    def rename(self, branch: str) -> bool:
        tables = self._tables(branch)
        if not tables:
            return False
        old = self.dice.choice(sorted(tables))
        new = self._new_key(old[-1].partition("_")[0])
        self.nessie.rename(branch, old, new)
        return self._told(f"{branch}: {old} becomes {new}")

    def drop(self, branch: str) -> bool:
        tables = self._tables(branch)
        if len(tables) < 3:
            return False
        key = self.dice.choice(sorted(tables))
        self.nessie.commit(branch, deletes=[key])
        return self._told(f"{branch}: drop {key}")

    def forget_reference(self, _branch: str) -> bool:
        names = [name for name in self.walk.references() if name != "main"]
        if len(names) < 3:
            return False
        name = self.dice.choice(sorted(names))
        self.nessie.delete_reference(name)
        return self._told(f"delete reference {name}")

    def move_reference(self, branch: str) -> bool:
        if branch == "main":
            return False
        self.nessie.assign(branch, "main", self._some_commit("main"))
        return self._told(f"{branch} moves to a commit of main")

    # How a step is taken.

    def _spark_on_table(
        self,
        branch: str,
        statement: str,
        is_fit: Callable[[Key, State], bool] = lambda key, state: True,
    ) -> bool:
        tables = sorted(key for key, state in self._tables(branch).items() if is_fit(key, state))
        if not tables:
            return False
        key = self.dice.choice(tables)
        words = {
            "name": self._name(key),
            "table": ".".join(key),
            "catalog": self.spark_catalog,
        }
        self._spark(branch, statement.format(**words))
        return self._told(f"{branch}: {statement.format(**words)}")

    def _spark(self, branch: str, statement: str) -> None:
        self.spark.sql(f"USE REFERENCE `{branch}` IN {self.spark_catalog}", statement)

    def _py_on_table(self, branch: str, verb: str, change: Callable[[Table], None]) -> bool:
        tables = self._tables(branch)
        if not tables:
            return False
        key = self.dice.choice(sorted(tables))
        found = self._open(tables[key])
        if found.metadata.format_version > _NEWEST_THAT_PYICEBERG_WRITES:
            return False
        with _known_warnings():
            change(found)
        if found.metadata_location != tables[key].metadata_location:
            self._py.commit(branch, key, found)
        return self._told(f"{branch}: pyiceberg {verb} {key}")

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
        return str(self.dice.choice(log[:6])["commitMeta"]["hash"])

    def _new_location(self, branch: str, key: Key) -> str | None:
        """Now and then inside another table's folder."""
        tables = self._tables(branch)
        if self.is_tame or not tables or self.dice.random() < 0.5:
            return None
        outer = self._open(tables[self.dice.choice(sorted(tables))]).location()
        return f"{outer}/{self.dice.choice(['inner', 'data', 'data/inner'])}/{key[-1]}"

    def _new_key(self, writer: str) -> Key:
        return (self.namespace, f"{writer}_{self._number()}")

    def _name(self, key: Key) -> str:
        return ".".join((self.spark_catalog, *key))

    def _select(self) -> str:
        start = self._number() * 10
        return (
            "SELECT id, CAST(id % 2 AS INT) AS part, concat('spark-', id) AS name "
            f"FROM range({start}, {start + self.dice.randrange(1, 9)}, 1, 1)"
        )

    def _rows(self) -> pa.Table:
        start = self._number() * 10
        ids = list(range(start, start + self.dice.randrange(1, 9)))
        columns = [ids, [i % 2 for i in ids], [f"py-{i}" for i in ids]]
        return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _told(self, what: str) -> bool:
        self.story.append(what)
        return True


@contextmanager
def _known_warnings() -> Iterator[None]:
    """pyiceberg warns of a delete that finds no row, and of one that rewrites files."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match|Merge on read is not yet")
        yield
