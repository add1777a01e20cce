"""Catalogs written at random by Spark, by pyiceberg and over Nessie's own REST: what users do, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
from pyiceberg.table import Table

from lakesweep_testing.catalog_under_change import (
    SCHEMA,
    CatalogUnderChange,
    Ids,
    any_table,
    known_warnings,
    rows_of,
    same,
    select_of,
)
from lakesweep_testing.iceberg_readers import has_equality_deletes
from lakesweep_testing.nessie_contents import Key, namespace

__all__ = ["RandomCatalog"]

_PROPERTIES = (
    {"format-version": "1"},
    {"format-version": "2", "write.metadata.compression-codec": "gzip"},
    {"format-version": "2", "write.delete.mode": "merge-on-read"},
    {"format-version": "3", "write.delete.mode": "merge-on-read"},
)
_NAMES = ("stray.parquet", "part=1/stray.avro")
_ODD_NAMES = ("stray.parquet", "a b.parquet", "part=1/x%20y.parquet", "ä+&.avro", "deep/er/_tmp")


@dataclass(slots=True)
class RandomCatalog(CatalogUnderChange):
    """Every step is a user's verb, and says in `story` what it did."""

    done: set[str] = field(default_factory=set)  # verbs
    _bag: list[Callable[[str], bool]] = field(default_factory=list)
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
        """Take steps at random, all verbs in turn; what can't be done at the moment is another step."""
        while steps:
            if not self._bag:
                weights = self._weights()
                self._bag = [verb for verb, weight in weights.items() for _ in range(weight)]
                self.dice.shuffle(self._bag)
            self.times.append(datetime.now(UTC))
            verb = self._bag.pop()
            if verb(self.dice.choice(self._branches())):
                self.done.add(verb.__name__)
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
            self.spark_replace: 0 if self.is_tame else 1,
            self.py_create: 2,
            self.py_replace: 0 if self.is_tame else 2,
            self.py_append: 5,
            self.py_overwrite: 3,
            self.py_delete_rows: 3,
            self.py_delete_equal: 2,
            self.py_expire_snapshots: 2,
            self.leave_strays: 3,
            self.branch_off: 3,
            self.tag: 2,
            self.merge: 4,
            self.rename: 2,
            self.drop: 3,
            self.forget_reference: 2,
            self.move_reference: 1,
            self.reset: 1,
        }
        by_rest = {self.rest_create: 2, self.rest_write: 4}
        return weights | (by_rest if self.rest is not None else {})

    # Spark.

    def spark_create(self, branch: str, properties: dict[str, str] | None = None) -> bool:
        key = self._new_key("spark")
        return self._spark_create(branch, key, self._new_location(branch, key), properties)

    def _spark_create(
        self, branch: str, key: Key, location: str | None, properties: dict[str, str] | None = None
    ) -> bool:
        chosen = properties or self.dice.choice(_PROPERTIES)
        words = ", ".join(f"'{k}'='{v}'" for k, v in chosen.items())
        partitioned = " PARTITIONED BY (part)" if self.dice.random() < 0.4 else ""
        at = f" LOCATION '{location}'" if location else ""
        ids = self._ids()
        self._spark(
            branch,
            f"CREATE TABLE {self._name(key)} USING iceberg{partitioned}{at} TBLPROPERTIES ({words}) "
            f"AS {select_of(ids)}",
        )
        self._wrote(branch, key, ids)
        return self._told(f"{branch}: Spark creates {key} {chosen}{partitioned}{at}")

    def spark_replace(self, branch: str) -> bool:
        """Drop a table and make another of the same name in its place."""
        tables = self._tables(branch)
        own = sorted(key for key in tables if key[-1].startswith("spark"))
        if not own:
            return False
        key = self.dice.choice(own)
        self._spark(branch, f"DROP TABLE {self._name(key)}")
        return self._spark_create(branch, key, self._open(tables[key]).location())

    def spark_append(self, branch: str) -> bool:
        new = self._ids()
        statement = f"INSERT INTO {{name}} {select_of(new)}"
        return self._spark_on_table(branch, statement, lambda ids: ids + new)

    def spark_overwrite(self, branch: str) -> bool:
        new = self._ids()
        statement = f"INSERT OVERWRITE {{name}} {select_of(new)}"
        return self._spark_on_table(branch, statement, lambda _: new)

    def spark_delete_rows(self, branch: str) -> bool:
        """By a new data file, a position delete file or a deletion vector, as the table was made."""
        rest = self.dice.randrange(3)
        return self._spark_on_table(
            branch,
            f"DELETE FROM {{name}} WHERE id % 3 = {rest}",
            lambda ids: tuple(i for i in ids if i % 3 != rest),
            # Those that Spark made have modes of deleting.
            lambda key, _: "spark" in key[-1],
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
            branch, call, same, lambda _, state: not self._open(state).spec().is_unpartitioned()
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
        ids = self._ids()
        made.append(rows_of(ids))
        self._py.commit(branch, key, made)
        self._wrote(branch, key, ids)
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
        new = self._ids()

        def append(found: Table, ids: Ids) -> Ids:
            found.append(rows_of(new))
            return ids + new

        return self._py_on_table(branch, "appends", append, any_table)

    def py_overwrite(self, branch: str) -> bool:
        new = self._ids()

        def overwrite(found: Table, _: Ids) -> Ids:
            found.overwrite(rows_of(new))
            return new

        return self._py_on_table(branch, "overwrites", overwrite)

    def py_delete_rows(self, branch: str) -> bool:
        def delete(found: Table, ids: Ids) -> Ids:
            least = self.dice.choice(ids or (0,))
            found.delete(f"id < {least}")
            return tuple(i for i in ids if i >= least)

        return self._py_on_table(branch, "deletes rows", delete)

    def py_delete_equal(self, branch: str) -> bool:
        """An equality delete file, which Spark reads and pyiceberg does not."""

        def delete(found: Table, ids: Ids) -> Ids:
            gone = ids[: 1 + len(ids) // 3]
            self._py.delete_where_equal(found, "id", gone)
            return ids[len(gone) :]

        def is_fit(found: Table) -> bool:
            return found.metadata.format_version == 2 and found.spec().is_unpartitioned()

        return self._py_on_table(branch, "deletes equal rows", delete, is_fit)

    def py_expire_snapshots(self, branch: str) -> bool:
        """The metadata forgets its older snapshots; no file is touched."""

        def expire(found: Table, ids: Ids) -> Ids:
            old = [s.snapshot_id for s in found.snapshots()][:-1]
            if old:
                found.maintenance.expire_snapshots().by_ids(old).commit()
            return ids

        return self._py_on_table(branch, "expires snapshots", expire, any_table)

    # Nessie's Iceberg REST catalog, which writes the metadata itself.

    def rest_create(self, branch: str) -> bool:
        key, ids = self._new_key("rest"), self._ids()
        assert self.rest is not None
        made = self.rest(branch).create_table(key, SCHEMA)
        self._wrote(branch, key, ())
        made.append(rows_of(ids))
        self._wrote(branch, key, ids)
        return self._told(f"{branch}: REST creates {key}")

    def rest_write(self, branch: str) -> bool:
        assert self.rest is not None
        tables = self._tables(branch)
        own = sorted(
            key
            for key, state in tables.items()
            if key[-1].startswith("rest") and not has_equality_deletes(self._open(state))
        )
        if not own:
            return False
        key, new = self.dice.choice(own), self._ids()
        found = self.rest(branch).load_table(key)
        is_append = self.dice.random() < 0.5
        with known_warnings():
            (found.append if is_append else found.overwrite)(rows_of(new))
        earlier = self.rows[tables[key].metadata_location]
        self._wrote(branch, key, earlier + new if is_append else new)
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

    def reset(self, branch: str) -> bool:
        log = self.walk.log(branch, self.nessie.head(branch))
        if len(log) < 6 or log[1]["commitMeta"]["hash"] in self.cut_off:
            return False
        self.nessie.assign(branch, branch, log[1]["commitMeta"]["hash"])
        return self._told(f"{branch} goes back by one commit")

    def _new_location(self, branch: str, key: Key) -> str | None:
        """Now and then inside another table's folder."""
        tables = self._tables(branch)
        if self.is_tame or not tables or self.dice.random() < 0.5:
            return None
        outer = self._open(tables[self.dice.choice(sorted(tables))]).location()
        return f"{outer}/{self.dice.choice(['inner', 'data', 'data/inner'])}/{key[-1]}"
