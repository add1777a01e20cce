"""Random catalogs of Spark and pyiceberg: our lists equal an oracle file by file, and after a sweep all can be read.

The tests of one catalog build on one another: the one that deletes comes last.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.iceberg_oracle import IcebergOracle
from lakesweep_testing.iceberg_readers import files_by_spark
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules, NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.pyiceberg_user import rest_catalog
from lakesweep_testing.random_catalogs import RandomCatalog
from lakesweep_testing.servers import NessieServer, SparkIcebergWriter
from lakesweep_testing.sweep_check import SweepCheck
from lakesweep_testing.table_places import LocalPlace, MinIOPlace, plain

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

STEPS = 36
FEW = CutoffRules(Cutoff(commits=2), {"v.*": Cutoff(commits=1)})


@pytest.fixture(
    scope="module",
    params=[(place, seed) for place in ("local", "minio") for seed in (4, 5, 6)],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def catalog(
    request: pytest.FixtureRequest,
    nessie: NessieServer,
    nessie_spark: SparkIcebergWriter,
    local_place: LocalPlace,
    minio_place: MinIOPlace,
    empty_catalog: Callable[[], None],
    walk: NessieWalk,
    user: NessieWriter,
) -> RandomCatalog:
    """A catalog of its own, the only one on the server."""
    name, seed = request.param
    empty_catalog()
    is_local = name == "local"
    made = RandomCatalog(
        dice=random.Random(seed),
        namespace=f"{name}_{seed}",
        place=local_place if is_local else minio_place,
        spark=nessie_spark,
        spark_catalog="nessie" if is_local else "lake",
        nessie=user,
        walk=walk,
        rest=None if is_local else rest_catalog(nessie.iceberg_uri, minio_place.properties),
    )
    made.begin()
    made.run(STEPS)
    return made


@pytest.fixture(scope="module")
def oracle(catalog: RandomCatalog, new_oracle: Callable[[], IcebergOracle]) -> IcebergOracle:
    """What it has read of one catalog stays true until the sweep."""
    return new_oracle()


def policies(catalog: RandomCatalog) -> dict[str, CutoffRules]:
    early, late = (catalog.times[len(catalog.times) * n // 4] for n in (1, 3))
    return {
        "all": CutoffRules(),
        "heads": CutoffRules(Cutoff(commits=1)),
        "some commits": CutoffRules(Cutoff(commits=3)),
        "since": CutoffRules(Cutoff(since=early)),
        "by name": CutoffRules(
            Cutoff(commits=2), {"main|dev": Cutoff(since=late), "dev-.*": Cutoff(commits=5)}
        ),
    }


@pytest.mark.parametrize("name", ["all", "heads", "some commits", "since", "by name"])
def test_deferred_list_equals_the_oracle(
    catalog: RandomCatalog,
    collector: CatalogCollector,
    oracle: IcebergOracle,
    walk: NessieWalk,
    name: str,
) -> None:
    """File by file, and the references of Nessie are as they were."""
    rules = policies(catalog)[name]
    references = walk.references()
    expected = oracle.garbage(walk.live(rules))
    found = collector.would_delete(rules)
    assert found == expected, catalog.story
    assert expected, "a catalog without garbage proves little"
    assert walk.references() == references


def test_files_younger_than_asked_for_are_kept(
    catalog: RandomCatalog,
    collector: CatalogCollector,
    oracle: IcebergOracle,
    walk: NessieWalk,
) -> None:
    """--max-file-modification in the midst of the catalog's history, judged by the listing's own times."""
    rules = CutoffRules(Cutoff(commits=1))
    at = catalog.times[len(catalog.times) // 2]
    live = walk.live(rules)
    expected = oracle.garbage(live, not_after=at)
    assert collector.would_delete(rules, max_file_modification=at) == expected
    assert expected < oracle.garbage(live)


def test_all_snapshots_are_those_of_the_metadata_tables(
    catalog: RandomCatalog,
    collector: CatalogCollector,
    oracle: IcebergOracle,
    walk: NessieWalk,
    nessie_spark: SparkIcebergWriter,
) -> None:
    """With --keep-all-snapshots, what Iceberg lists of itself stays, and nothing else but metadata and statistics."""
    rules = CutoffRules(Cutoff(commits=1))
    live = walk.live(rules)
    needed = files_by_spark(nessie_spark, live)
    needed |= {plain(state.metadata_location) for state in live.states}
    for state in live.states:
        if state.kind == "ICEBERG_TABLE":
            metadata = oracle.table(state).metadata
            found = [*metadata.statistics, *metadata.partition_statistics]
            needed |= {plain(file.statistics_path) for file in found}
    expected = oracle.garbage_but_for(live, needed)
    assert collector.would_delete(rules, keep_all_snapshots=True) == expected
    assert expected == oracle.garbage(live, all_snapshots=True)


def test_all_that_is_kept_can_be_read_after_the_sweep(
    catalog: RandomCatalog, check: SweepCheck
) -> None:
    """Every table at every retained commit has the rows it had, for Spark and for pyiceberg; the rest is gone."""
    assert check.sweep(FEW)
    if isinstance(catalog.place, LocalPlace):
        assert not _lonely_checksums(catalog.place)


def _lonely_checksums(place: LocalPlace) -> set[str]:
    """Hadoop's hidden checksums whose file is gone."""
    found = set(place.files_and_checksums(place.root))
    beside = {(f, f.rpartition("/")) for f in found if f.endswith(".crc")}
    return {f for f, (d, _, n) in beside if f"{d}/{n[1:-4]}" not in found}
