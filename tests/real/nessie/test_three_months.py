"""Three months of a catalog that Spark, pyiceberg and Nessie's Iceberg REST catalog write to, with a sweep every week.

LAKESWEEP_WEEKS asks for a longer use, LAKESWEEP_WEEKS_SEED for another one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.iceberg_readers import has_equality_deletes
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules, LiveStates, NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.pyiceberg_user import rest_catalog
from lakesweep_testing.random_catalogs import RandomCatalog
from lakesweep_testing.servers import NessieServer, SparkIcebergWriter
from lakesweep_testing.table_places import MinIOPlace, Times
from lakesweep_testing.weekly_sweeps import WeeklySweeps, ids_of

WEEKS = int(os.environ.get("LAKESWEEP_WEEKS", "13"))
SEED = int(os.environ.get("LAKESWEEP_WEEKS_SEED", "1"))
STEPS_A_WEEK = 7

pytestmark = [pytest.mark.real, pytest.mark.timeout(300 + 40 * WEEKS)]

VERBS = {
    "spark_append",
    "spark_overwrite",
    "spark_delete_rows",
    "spark_compact",
    "spark_statistics",
    "spark_create",
    "spark_replace",
    "py_append",
    "py_overwrite",
    "py_delete_rows",
    "py_delete_equal",
    "py_expire_snapshots",
    "py_replace",
    "rest_create",
    "rest_write",
    "leave_strays",
    "branch_off",
    "tag",
    "merge",
    "rename",
    "drop",
    "forget_reference",
    "reset",
}


@pytest.fixture
def catalog(
    nessie: NessieServer,
    nessie_spark: SparkIcebergWriter,
    minio_place: MinIOPlace,
    empty_catalog: Callable[[], None],
    walk: NessieWalk,
    user: NessieWriter,
) -> RandomCatalog:
    """A catalog on MinIO, the only one on the server."""
    empty_catalog()
    made = RandomCatalog(
        dice=random.Random(SEED),
        namespace=f"months_{SEED}",
        place=minio_place,
        spark=nessie_spark,
        spark_catalog="lake",
        nessie=user,
        walk=walk,
        rest=rest_catalog(nessie.iceberg_uri, minio_place.properties),
    )
    made.begin()
    return made


def policy(week: int, starts: list[datetime]) -> CutoffRules:
    """What a user asks for in a week: mostly times, now and then less, or more than there is any more."""

    def weeks_ago(number: int) -> Cutoff:
        return Cutoff(since=starts[max(0, week - number)])

    tags = {"v.*": Cutoff(commits=1)}
    if week % 6 == 4:
        return CutoffRules(Cutoff(commits=2), tags)
    if week % 6 == 5:
        return CutoffRules(weeks_ago(8), tags | {"main": Cutoff()})
    return CutoffRules(weeks_ago(2), tags | {"main": weeks_ago(3), "dev-.*": Cutoff(commits=4)})


def test_a_sweep_a_week(
    catalog: RandomCatalog,
    nessie: NessieServer,
    minio_place: MinIOPlace,
    tmp_path: Path,
) -> None:
    """Each deletes exactly the oracle's garbage of the weeks before, and every table reads at every live commit."""
    bucket = minio_place.root.rpartition("/")[0]

    def all_files() -> Times:
        return minio_place.files(minio_place.root) | minio_place.files(f"{bucket}/rest")

    def new_oracle(gone: Collection[str]) -> IcebergOracle:
        return IcebergOracle(minio_place.properties, minio_place.files, gone)

    with open_live_sets(f"sqlite:///{tmp_path / 'live-sets.db'}") as live_sets:
        live_sets.create_schema(SchemaStrategy.CREATE)
        weekly = WeeklySweeps(
            catalog,
            CatalogCollector(
                nessie.uri, minio_place.storage, tmp_path / "work", live_sets=live_sets
            ),
            new_oracle,
            all_files,
        )
        starts: list[datetime] = []
        deleted: list[set[str]] = []
        for week in range(WEEKS):
            starts.append(datetime.now(UTC))
            catalog.run(STEPS_A_WEEK)
            rules = policy(week, starts)
            # Twice a quarter tables go that were dropped three weeks ago.
            is_long_ago = datetime.now(UTC) - starts[max(0, week - 2)]
            grace = is_long_ago if week % 6 == 4 else None
            deleted.append(weekly.sweep(rules, starts[week], dropped_grace=grace))
            live = catalog.walk.live(rules)
            weekly.assert_readable(live, all_by_spark=week % 6 == 0)
            assert_readable_by_rest(weekly, live)
    weeks_with_garbage = sum(map(bool, deleted))
    assert weeks_with_garbage > WEEKS // 2, "a week without garbage proves little"
    assert catalog.done >= VERBS, catalog.done
    assert weekly.of_dropped


def assert_readable_by_rest(weekly: WeeklySweeps, live: LiveStates) -> None:
    """Some tables, whoever wrote them, by Nessie's Iceberg REST catalog at a live commit."""
    assert weekly.catalog.rest is not None
    oracle, places = weekly.new_oracle(weekly.gone), weekly.places(live)
    # Nessie's own catalog knows no version 3.
    fit = [
        state
        for state in sorted(places)
        if (table := oracle.table(state)).metadata.format_version < 3
        and not has_equality_deletes(table)
    ]
    for state in weekly.catalog.dice.sample(fit, min(3, len(fit))):
        place = places[state]
        found = weekly.catalog.rest(f"{place.reference}@{place.commit}").load_table(place.key)
        assert ids_of(found, state.snapshot_id) == weekly.written(state), weekly.catalog.story
