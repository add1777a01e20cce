"""Live sets in PostgreSQL and MariaDB, shared between zones, processes and nessie-gc itself."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.domain.live_sets import LiveSetId
from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.iceberg_tables import IcebergTable
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules, NessieWalk
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers import MariaDBServer, NessieServer, PostgresServer
from lakesweep_testing.table_places import LocalPlace

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

HEADS = CutoffRules(Cutoff(commits=1))
KEY = ("db", "or.ders")

# nessie-gc's own tables, column by column.
OFFICIAL_TABLES = (
    "CREATE TABLE gc_live_sets (live_set_id VARCHAR(40), set_status VARCHAR(40), identify_started TIMESTAMP NULL, "
    "identify_finished TIMESTAMP NULL, expire_started TIMESTAMP NULL, expire_finished TIMESTAMP NULL, "
    "error_message VARCHAR(2000), PRIMARY KEY (live_set_id))",
    "CREATE TABLE gc_live_set_contents (live_set_id VARCHAR(40), content_id VARCHAR(200), commit_id VARCHAR(100), "
    "content_key VARCHAR(500), content_type VARCHAR(40), metadata_location VARCHAR(1000), snapshot_id BIGINT, "
    "PRIMARY KEY (live_set_id, content_id, commit_id))",
    "CREATE TABLE gc_live_set_content_locations (live_set_id VARCHAR(40), content_id VARCHAR(200), "
    "base_location VARCHAR(500), PRIMARY KEY (live_set_id, content_id, base_location))",
    "CREATE TABLE gc_file_deletions (live_set_id VARCHAR(40), base_uri VARCHAR(250), path_uri VARCHAR(250), "
    "modification_timestamp BIGINT, PRIMARY KEY (live_set_id, base_uri, path_uri))",
)


class Orders:
    """One table on local files, whose first state is cut off; what is dead is known."""

    def __init__(self, place: LocalPlace, user: NessieWriter) -> None:
        self.place = place
        self.location = f"{place.root}/orders_{uuid.uuid4().hex[:8]}"
        self.iceberg = IcebergTable(place.write, self.location)
        first = self.iceberg.append("a.parquet", "b.parquet")
        user.commit("main", {KEY: table(first.metadata_location, first.snapshot_id)})
        self.last = self.iceberg.remove("a.parquet")
        user.commit("main", {KEY: table(self.last.metadata_location, self.last.snapshot_id)})
        self.dead = self.iceberg.live_files(first) - self.iceberg.live_files(self.last)
        self.dead.add(self.iceberg.write_orphan("never-committed.parquet"))

    def orphan(self, name: str, age: timedelta) -> str:
        """A file that nobody knows, as old as that."""
        uri = self.iceberg.write_orphan(name)
        self.make_old(age, uri)
        return uri

    def make_old(self, age: timedelta, *uris: str) -> None:
        at = (datetime.now(UTC) - age).timestamp()
        for uri in uris or self.place.files(self.location):
            os.utime(urlsplit(uri).path, (at, at))


@pytest.fixture
def orders(
    local_place: LocalPlace, user: NessieWriter, empty_catalog: Callable[[], None]
) -> Orders:
    empty_catalog()
    return Orders(local_place, user)


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with nothing in it but nessie-gc's tables."""
    name = f"shared_{uuid.uuid4().hex[:8]}"
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        made = postgres.make_database(name)
    else:
        mariadb: MariaDBServer = request.getfixturevalue("mariadb")
        made = mariadb.make_database(name)
    run_sql(made, *OFFICIAL_TABLES)
    return made


def run_sql(url: str, *statements: str, **values: object) -> list[dict[str, Any]]:
    """Rows of the last statement; in a session whose clock is UTC's, as nessie-gc's in its container is."""
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(driver)
    rows: list[dict[str, Any]] = []
    with engine.begin() as connection:
        is_mariadb = engine.dialect.name != "postgresql"
        connection.execute(
            sa.text("SET time_zone = '+00:00'" if is_mariadb else "SET TIME ZONE 'UTC'")
        )
        for statement in statements:
            found = connection.execute(sa.text(statement), values)
            rows = [dict(row._mapping) for row in found] if found.returns_rows else []
    engine.dispose()
    return rows


def in_zone(zone: str, folder: Path, *words: str) -> str:
    """stdout of one of our commands, in a process whose clock shows that zone's time."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LAKESWEEP_", "NESSIE_"))}
    cache = {k: v for k, v in os.environ.items() if k == "LAKESWEEP_CACHE"}
    ours = {"TZ": zone, "PGTZ": zone, "SPARK_LOCAL_IP": "127.0.0.1", "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "lakesweep", "nessie", *words],
        env=kept | cache | ours,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def recorded(url: str, live_set_id: str) -> set[str]:
    rows = run_sql(url, "SELECT * FROM gc_file_deletions WHERE live_set_id = :id", id=live_set_id)
    return {row["base_uri"] + row["path_uri"] for row in rows}


@pytest.mark.spark
def test_mark_in_tokyo_and_expire_in_utc(
    orders: Orders,
    url: str,
    nessie: NessieServer,
    collector: CatalogCollector,
    tmp_path: Path,
) -> None:
    """The same list as all in UTC; a file written after the mark is on neither, though Tokyo's clock is hours ahead."""
    ids = {}
    for zone in ("Asia/Tokyo", "UTC"):
        file = tmp_path / zone.replace("/", "-")
        words = (
            "--jdbc-url",
            url,
            "-u",
            nessie.uri,
            "-c",
            "1",
            "--write-live-set-id-to",
            str(file),
        )
        in_zone(zone, tmp_path, "mark-live", *words)
        ids[zone] = LiveSetId(file.read_text())
    late = orders.iceberg.write_orphan("written-after-the-mark.parquet")
    options = ("--defer-deletes", "--grace", "0s")
    in_zone("UTC", tmp_path, "expire", "--jdbc-url", url, "-l", ids["Asia/Tokyo"], *options)
    with open_live_sets(url) as live_sets:
        collector.live_sets = live_sets
        collector.expire_set(ExpireRequest(ids["UTC"], defer=True, grace=timedelta(0)))
    assert recorded(url, ids["Asia/Tokyo"]) == recorded(url, ids["UTC"]) == orders.dead
    assert late not in orders.dead


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles", "UTC"])
def test_set_that_nessie_gc_marked(
    orders: Orders,
    url: str,
    collector: CatalogCollector,
    walk: NessieWalk,
    zone: str,
) -> None:
    """Its clock's zone is unknown, so a margin of 14 hours is added to the age; a time that is asked for takes its place."""
    marked_at = datetime.now(UTC)
    orders.make_old(timedelta(days=2))
    hours_old = orders.orphan("hours-old.parquet", timedelta(hours=2))
    new = orders.iceberg.write_orphan("written-after-the-mark.parquet")
    for number, request in enumerate(
        (ExpireRequest, lambda id, **k: ExpireRequest(id, max_file_modification=marked_at, **k))
    ):
        live_set_id = LiveSetId(str(uuid.uuid4()))
        mark_as_nessie_gc_does(url, live_set_id, walk, marked_at.astimezone(ZoneInfo(zone)))
        with open_live_sets(url) as live_sets:
            collector.live_sets = live_sets
            collector.expire_set(request(live_set_id, defer=True, grace=timedelta(0)))
        expected = orders.dead | (
            {hours_old} if number and zone != "America/Los_Angeles" else set()
        )
        assert recorded(url, live_set_id) == expected
        assert new not in expected
        [row] = run_sql(url, "SELECT * FROM gc_live_sets WHERE live_set_id = :id", id=live_set_id)
        assert row["set_status"] == "EXPIRY_SUCCESS"


def mark_as_nessie_gc_does(url: str, live_set_id: str, walk: NessieWalk, at: datetime) -> None:
    """Rows by SQL: what its zone's clock shows, and nothing of what only lakesweep stores."""
    local = at.replace(tzinfo=None, microsecond=0)
    run_sql(
        url,
        "INSERT INTO gc_live_sets (live_set_id, set_status, identify_started, identify_finished) "
        "VALUES (:id, 'IDENTIFY_SUCCESS', :at, :at)",
        id=live_set_id,
        at=local,
    )
    for hash, (_, states) in walk.live(HEADS).commits.items():
        for key, state in states.items():
            run_sql(
                url,
                "INSERT INTO gc_live_set_contents VALUES (:id, :content, :commit, :key, :kind, :at, :snapshot)",
                id=live_set_id,
                content=state.content_id,
                commit=hash,
                key=".".join(part.replace(".", "\x1d") for part in key),
                kind=state.kind,
                at=state.metadata_location,
                snapshot=state.snapshot_id,
            )


def test_rows_are_as_nessie_gc_writes_them(
    orders: Orders,
    url: str,
    collector: CatalogCollector,
    walk: NessieWalk,
    user: NessieWriter,
) -> None:
    """Every column of its four tables after a mark and after an expiry, so that it can go on with our set."""
    user.create_tag("v1")
    user.commit("main", {("db", "other"): table(orders.last.metadata_location, -1)})
    begun = datetime.now(UTC)
    with open_live_sets(url) as live_sets:
        collector.live_sets = live_sets
        live_set_id = collector.mark(CutoffRules(Cutoff(commits=2))).live_set_id
        [row] = run_sql(url, "SELECT * FROM gc_live_sets")
        assert (row["live_set_id"], row["set_status"]) == (live_set_id, "IDENTIFY_SUCCESS")
        assert_now(begun, row["identify_started"], row["identify_finished"])
        assert row["expire_started"] is row["expire_finished"] is row["error_message"] is None
        assert run_sql(
            url, "SELECT * FROM gc_live_set_contents ORDER BY commit_id, content_id"
        ) == (expected_contents(walk, CutoffRules(Cutoff(commits=2)), live_set_id))
        for empty in ("gc_live_set_content_locations", "gc_file_deletions"):
            assert run_sql(url, f"SELECT * FROM {empty}") == []
        collector.expire_set(ExpireRequest(live_set_id, defer=True, grace=timedelta(0)))

    [row] = run_sql(url, "SELECT * FROM gc_live_sets")
    assert row["set_status"] == "EXPIRY_SUCCESS"
    assert_now(begun, row["identify_started"], row["expire_started"], row["expire_finished"])
    assert row["error_message"] is None
    ids = {state.content_id for state in walk.live(CutoffRules(Cutoff(commits=2))).states}
    rows = run_sql(url, "SELECT * FROM gc_live_set_content_locations")
    assert {tuple(row.values()) for row in rows} == {
        (live_set_id, content_id, f"{orders.location}/") for content_id in ids
    }
    rows = run_sql(url, "SELECT * FROM gc_file_deletions")
    times = orders.place.files(orders.location)
    assert rows
    for row in rows:
        assert (row["live_set_id"], row["base_uri"]) == (live_set_id, f"{orders.location}/")
        assert not row["path_uri"].startswith(("/", "."))
        modified = times[row["base_uri"] + row["path_uri"]]
        assert row["modification_timestamp"] == int(modified.timestamp() * 1000)


def assert_now(begun: datetime, *written: datetime) -> None:
    """Zone-less columns hold UTC; MariaDB's whole seconds."""
    for at in written:
        assert at.tzinfo is None
        assert begun - timedelta(seconds=1) <= at.replace(tzinfo=UTC) <= datetime.now(UTC)


def expected_contents(
    walk: NessieWalk, rules: CutoffRules, live_set_id: str
) -> list[dict[str, object]]:
    """What live commits put, and all that the last live commit of each reference has; one row for each of them."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for name, (_, head) in walk.references().items():
        log = walk.log(name, head)[: rules.of(name).commits]
        hashes = [entry["commitMeta"]["hash"] for entry in log]
        for entry, hash in zip(log, hashes, strict=True):
            put = {tuple(o["key"]["elements"]) for o in entry["operations"] if o["type"] == "PUT"}
            for key, state in walk.state(hash).items():
                if key in put or hash == hashes[-1]:
                    rows[hash, state.content_id] = {
                        "live_set_id": live_set_id,
                        "content_id": state.content_id,
                        "commit_id": hash,
                        "content_key": ".".join(part.replace(".", "\x1d") for part in key),
                        "content_type": state.kind,
                        "metadata_location": state.metadata_location,
                        "snapshot_id": state.snapshot_id,
                    }
    return [rows[at] for at in sorted(rows)]
