"""A catalog in use for months with a sweep every week, each held against the oracle and against what users wrote.

A week is the time between two sweeps: Nessie dates its commits itself, so cut-offs are instants taken between the weeks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pyiceberg.table import Table

from lakesweep.collector.record import RunRecord
from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.catalog_under_change import Ids
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.iceberg_readers import has_equality_deletes, rows_by_spark
from lakesweep_testing.nessie_contents import Key
from lakesweep_testing.nessie_walk import CutoffRules, LiveStates, State
from lakesweep_testing.random_catalogs import RandomCatalog
from lakesweep_testing.servers.spark_writer import SparkIcebergWriter
from lakesweep_testing.table_places import Times

__all__ = ["WeeklySweeps", "ids_of"]


class Place(NamedTuple):
    """A table at a commit."""

    reference: str
    commit: str
    key: Key


@dataclass(slots=True)
class WeeklySweeps:
    """Sweeps one catalog again and again. `new_oracle` takes the names of files that sweeps deleted."""

    catalog: RandomCatalog
    collector: CatalogCollector
    new_oracle: Callable[[Collection[str]], IcebergOracle]
    all_files: Callable[[], Times]  # of every place that tables lie in
    gone: set[str] = field(default_factory=set)
    of_dropped: set[str] = field(default_factory=set)  # of these, dropped tables' own
    sweeps: int = 0

    def sweep(
        self, rules: CutoffRules, not_after: datetime, *, dropped_grace: timedelta | None = None
    ) -> set[str]:
        """Delete what these rules make garbage, of files written up to a time; gives what was deleted.

        Exactly what the oracle calls garbage is gone, whatever else lies in the store, and Nessie's references are where
        they were. With a grace for dropped tables, some of their files are gone beside it.
        """
        walk = self.catalog.walk
        references, live = walk.references(), walk.live(rules)
        oracle, before = self.new_oracle(self.gone), self.all_files()
        least = oracle.garbage(live, not_after=not_after)
        most = least
        if dropped_grace is not None:
            most = oracle.garbage_at_most(live, not_after=not_after)

        record = self._delete(rules, not_after, dropped_grace)

        after = self.all_files()
        deleted = before.keys() - after.keys()
        assert least <= deleted <= most, self.catalog.story
        assert after == {name: at for name, at in before.items() if name not in deleted}
        assert record.objects["deleted"] == len(deleted)
        assert walk.references() == references
        self.gone |= deleted
        self.of_dropped |= deleted - least
        self._cut_off(live)
        return deleted

    def assert_readable(self, live: LiveStates, *, all_by_spark: bool = False) -> None:
        """Every table at every live commit, but for commits that an earlier sweep cut off and that are live again.

        pyiceberg reads what it can, Spark the rest or everything.
        """
        oracle, places = self.new_oracle(self.gone), self.places(live)
        for_spark = {
            state: place
            for state, place in places.items()
            if all_by_spark or has_equality_deletes(oracle.table(state))
        }
        by_spark = _ids_by_spark(self.catalog.spark, for_spark)
        by_pyiceberg = {
            state: ids_of(oracle.table(state), state.snapshot_id)
            for state in places
            if not has_equality_deletes(oracle.table(state))
        }
        assert by_spark.keys() | by_pyiceberg.keys() == places.keys()
        for read in (by_spark, by_pyiceberg):
            assert read == {state: self.written(state) for state in read}, self.catalog.story

    def written(self, state: State) -> Ids:
        """The ids that users wrote."""
        return self.catalog.rows[state.metadata_location]

    def places(self, live: LiveStates) -> dict[State, Place]:
        """Tables that must be readable, and where users find each."""
        return {
            state: Place(reference, commit, key)
            for commit, (reference, states) in live.commits.items()
            if commit not in self.catalog.cut_off
            for key, state in states.items()
            if state.kind == "ICEBERG_TABLE"
        }

    def _delete(
        self, rules: CutoffRules, not_after: datetime, dropped_grace: timedelta | None
    ) -> RunRecord:
        """At once, or recorded first: both roads in turn."""
        self.sweeps += 1
        marked = self.collector.mark(rules, dropped_grace=dropped_grace)
        if self.sweeps % 2:
            return self.collector.expire(marked, ask_nessie=True, max_file_modification=not_after)
        self.collector.expire(marked, defer=True, max_file_modification=not_after)
        return self.collector.delete_deferred(
            marked, ask_nessie=True, max_file_modification=not_after
        )

    def _cut_off(self, live: LiveStates) -> None:
        walk = self.catalog.walk
        for name, (_, head) in walk.references().items():
            hashes = {entry["commitMeta"]["hash"] for entry in walk.log(name, head)}
            self.catalog.cut_off |= hashes - live.commits.keys()


def ids_of(table: Table, snapshot_id: int) -> Ids:
    """The ids in a snapshot, read from all its files by pyiceberg."""
    if snapshot_id < 0:
        return ()
    found = table.scan(selected_fields=("id",), snapshot_id=snapshot_id).to_arrow()
    return tuple(sorted(found["id"].to_pylist()))


def _ids_by_spark(spark: SparkIcebergWriter, places: Mapping[State, Place]) -> dict[State, Ids]:
    commits: dict[str, tuple[str, dict[Key, State]]] = {}
    for state, place in places.items():
        commits.setdefault(place.commit, (place.reference, {}))[1][place.key] = state
    read = rows_by_spark(spark, LiveStates(set(), {}, commits))
    return {
        state: tuple(sorted(json.loads(line)["id"] for line in lines))
        for state, lines in read.items()
    }
