"""A sweep of a real catalog held against the oracle, with all that stays read before and after by its own readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.iceberg_readers import Rows, rows_by_pyiceberg, rows_by_spark
from lakesweep_testing.nessie_walk import CutoffRules, LiveStates, NessieWalk
from lakesweep_testing.servers.spark_writer import SparkIcebergWriter

__all__ = ["SweepCheck"]


@dataclass(frozen=True, slots=True)
class SweepCheck:
    """Checks one sweep after another; each oracle reads everything anew."""

    walk: NessieWalk
    spark: SparkIcebergWriter
    collector: CatalogCollector
    new_oracle: Callable[[], IcebergOracle]

    def sweep(self, rules: CutoffRules) -> set[str]:
        """Record, then delete for good; returns what was deleted.

        Every table at every retained commit has the rows it had, Nessie's references are where they were, and a
        second sweep finds nothing.
        """
        references = self.walk.references()
        live, oracle = self.walk.live(rules), self.new_oracle()
        expected, listed = oracle.garbage(live), set(oracle.listed(live))
        states = {state for _, found in live.commits.values() for state in found.values()}
        assert states == live.states, "a live commit has no other contents than the rule keeps"
        rows = rows_by_spark(self.spark, live)
        self._assert_read_by_pyiceberg(oracle, rows)

        assert self.collector.would_delete(rules) == expected
        record = self.collector.expire(self.collector.mark(rules), ask_nessie=True)

        assert record.objects["deleted"] == len(expected)
        self._assert_untouched(live, listed - expected)
        assert rows_by_spark(self.spark, live) == rows
        self._assert_read_by_pyiceberg(self.new_oracle(), rows)
        assert self.collector.would_delete(rules) == set()
        assert self.walk.references() == references
        return expected

    @staticmethod
    def _assert_read_by_pyiceberg(oracle: IcebergOracle, rows: Rows) -> None:
        read = rows_by_pyiceberg(oracle, rows)
        assert read == {state: rows[state] for state in read}

    def _assert_untouched(self, live: LiveStates, files: set[str]) -> None:
        afterwards = self.new_oracle()
        assert set(afterwards.listed(live)) == files
        assert afterwards.garbage(live) == set()
