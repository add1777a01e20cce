"""The official tool beside ours on random catalogs, where a jar of it is at hand: LAKESWEEP_NESSIE_GC_JAR names it."""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.domain.live_sets import LiveSetId
from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules, NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.random_catalogs import RandomCatalog
from lakesweep_testing.real_parts import JAVA_21
from lakesweep_testing.servers import (
    MinIOServer,
    NessieServer,
    PostgresServer,
    SparkIcebergWriter,
)
from lakesweep_testing.servers.process import clean_environment
from lakesweep_testing.table_places import LocalPlace, MinIOPlace, plain

JAR = os.environ.get("LAKESWEEP_NESSIE_GC_JAR")

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not JAR, reason="LAKESWEEP_NESSIE_GC_JAR names no jar of nessie-gc"),
]

STEPS = 30
RULES = CutoffRules(Cutoff(commits=2))


class NessieGc:
    """The jar, with live sets in a PostgreSQL database of its own."""

    def __init__(self, database: str, folder: Path, iceberg: dict[str, str]) -> None:
        self.database = database
        self.id_file = folder / "live-set-id"
        self._folder = folder
        self._iceberg = ",".join(f"{name}={value}" for name, value in iceberg.items())

    def create_schema(self) -> None:
        self._run("create-sql-schema")

    def mark(self, uri: str, rules: CutoffRules) -> str:
        """Mark; gives the id of the live set."""
        words = ("--uri", uri, "--default-cutoff", rules.default.text)
        self._run("mark-live", *words, "--write-live-set-id-to", str(self.id_file))
        return self.id_file.read_text().strip()

    def sweep(self, live_set_id: str) -> set[str]:
        """What a deferred sweep records."""
        words = ("--live-set-id", live_set_id, "--defer-deletes")
        self._run("sweep", *words, "--iceberg", self._iceberg)
        with psycopg.connect(self.database) as connection:
            rows = connection.execute(
                "SELECT base_uri, path_uri FROM gc_file_deletions WHERE live_set_id = %s",
                (live_set_id,),
            ).fetchall()
        return {plain(path if ":/" in path else base + path) for base, path in rows}

    def _run(self, command: str, *words: str) -> None:
        jdbc = self.database.replace("postgresql://postgres@", "jdbc:postgresql://")
        access = ("--jdbc-url", jdbc, "--jdbc-user", "postgres", "--jdbc-password", "any")
        done = subprocess.run(
            [str(JAVA_21.file()), "-jar", str(JAR), command, *access, *words],
            env=clean_environment(self._folder) | {"TZ": "UTC"},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("place", ["local", "minio"])
def test_lists_equal_those_of_nessie_gc(
    place: str,
    nessie: NessieServer,
    nessie_spark: SparkIcebergWriter,
    local_place: LocalPlace,
    minio_place: MinIOPlace,
    minio: MinIOServer,
    postgres: PostgresServer,
    empty_catalog: Callable[[], None],
    walk: NessieWalk,
    user: NessieWriter,
    collector: CatalogCollector,
    tmp_path: Path,
) -> None:
    """File by file: each tool on its own mark, and each on the other's."""
    empty_catalog()
    name = f"{place}_{uuid.uuid4().hex[:8]}"
    catalog = RandomCatalog(
        dice=random.Random(11),
        namespace=name,
        place=local_place if place == "local" else minio_place,
        spark=nessie_spark,
        spark_catalog="nessie" if place == "local" else "lake",
        nessie=user,
        walk=walk,
        # What the official tool is known to get wrong would show here, too.
        is_tame=True,
    )
    catalog.begin()
    catalog.run(STEPS)
    iceberg = {
        "s3.access-key-id": minio.access_key_id,
        "s3.secret-access-key": minio.secret_access_key,
        "s3.endpoint": minio.url,
        "s3.path-style-access": "true",
        "client.region": minio.region,
    }
    theirs = NessieGc(postgres.make_database(name), tmp_path, iceberg)
    theirs.create_schema()
    expected = theirs.sweep(theirs.mark(nessie.uri, RULES))
    assert collector.would_delete(RULES) == expected, catalog.story
    with open_live_sets(theirs.database) as live_sets:
        collector.live_sets = live_sets
        marked_by_them = LiveSetId(theirs.mark(nessie.uri, RULES))
        collector.expire_set(
            ExpireRequest(marked_by_them, defer=True, max_file_modification=datetime.now(UTC))
        )
        assert collector.deferred(marked_by_them) == expected
        marked_by_us = collector.mark(RULES)
    assert theirs.sweep(marked_by_us.live_set_id) == expected
