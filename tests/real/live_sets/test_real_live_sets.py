"""Live sets on servers as users have them: other zones, old settings, tables that fold case, rights that lack."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pymysql
import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy, schema_script
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    LiveSetStatus,
    MarkFacts,
    new_live_set_id,
)
from lakesweep.errors import CatalogDeniedError, CatalogError, UnsafeToSweepError
from lakesweep_testing.servers import MariaDBServer, PostgresServer

pytestmark = pytest.mark.real

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
FACTS = MarkFacts("http://x/api/v2", AT, "NONE", (), False, {}, (), ())


def reference(
    content: str = "c1", commit: str = "aa", location: str = "s3://x"
) -> ContentReference:
    kind = ContentKind.ICEBERG_TABLE
    return ContentReference(content, commit, ("db", "t"), kind, location, 1)


def unique() -> str:
    return f"live_{uuid.uuid4().hex[:10]}"


def run_on_mariadb(server: MariaDBServer, database: str, *statements: str) -> list[Any]:
    with (
        pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", database=database, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture
def foreign_tables(mariadb: MariaDBServer) -> str:
    """A database on the program's own settings, its tables made by nessie-gc: latin1, without regard to case."""
    name = unique()
    mariadb.make_database(name)
    run_on_mariadb(mariadb, name, *schema_script().split(";\n\n")[:4])
    return name


@pytest.fixture
def foreign_store(mariadb: MariaDBServer, foreign_tables: str) -> Iterator[LiveSetStore]:
    with open_live_sets(
        f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{foreign_tables}", user="root"
    ) as store:
        yield store


def test_jdbc_urls_reach_both_servers(mariadb: MariaDBServer, postgres: PostgresServer) -> None:
    """As nessie-gc's scripts write them."""
    name = unique()
    mariadb.make_database(name)
    postgres.make_database(name)
    for url in (
        f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{name}?user=root&sslMode=disable",
        f"jdbc:mysql://127.0.0.1:{mariadb.port}/{name}2?user=root",
        f"jdbc:postgresql://127.0.0.1:{postgres.port}/{name}?user=postgres&sslmode=disable",
    ):
        if url.endswith("2?user=root"):
            mariadb.make_database(f"{name}2")
        with open_live_sets(url) as store:
            store.create_schema(SchemaStrategy.CREATE)
            assert store.all() == []


def test_zone_of_the_postgresql_session_changes_nothing(postgres: PostgresServer) -> None:
    """A database set to Tokyo's time keeps and gives UTC."""
    name = unique()
    url = postgres.make_database(name)
    with psycopg.connect(postgres.database_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET timezone TO 'Asia/Tokyo'".encode())
    live_set_id = new_live_set_id()
    with open_live_sets(url) as store:
        store.create_schema(SchemaStrategy.CREATE)
        store.start_identify(live_set_id, AT)
        store.fail_identify(live_set_id, AT, "x")
        found = store.get(live_set_id)
        assert (found.created, found.identify_finished) == (AT, AT)
    with psycopg.connect(url) as connection:
        (row,) = connection.execute("SELECT identify_started::text FROM gc_live_sets").fetchall()
        assert row == ("2026-05-01 12:00:00",)


def test_zone_and_age_of_the_mariadb_server_change_nothing() -> None:
    """In Tokyo, and with the defaults of old servers, under which a table's first time changes on every update."""
    name = unique()
    with MariaDBServer(
        "--default-time-zone=+09:00", "--explicit-defaults-for-timestamp=OFF", "--sql-mode="
    ) as server:
        url = server.make_database(name)
        run_on_mariadb(server, name, *schema_script().split(";\n\n")[:4])
        live_set_id = new_live_set_id()
        with open_live_sets(url) as store:
            store.start_identify(live_set_id, AT)
            store.add_contents(live_set_id, [reference()])
            store.finish_identify(live_set_id, AT, FACTS)
            store.start_expire(live_set_id, AT)
            store.finish_expire(live_set_id, AT)
            found = store.get(live_set_id)
            assert found.status is LiveSetStatus.EXPIRY_SUCCESS
            assert (found.created, found.identify_finished, found.expire_finished) == (AT, AT, AT)
        # What nessie-gc reads there, in a container whose zone is UTC.
        columns = "identify_started, identify_finished, expire_started, expire_finished"
        (row,) = run_on_mariadb(server, name, f"SELECT {columns} FROM gc_live_sets")
        assert [str(value) for value in row] == ["2026-05-01 12:00:00"] * 4


def test_names_that_a_table_takes_for_one_are_refused(foreign_store: LiveSetStore) -> None:
    """A live content must not vanish behind another; nothing of the call is stored."""
    live_set_id = new_live_set_id()
    foreign_store.start_identify(live_set_id, AT)
    for other in ("ID", "id ", "íd"):
        with pytest.raises(UnsafeToSweepError, match="two different names") as refusal:
            foreign_store.add_contents(live_set_id, [reference("id"), reference(other)])
        assert refusal.value.kind == "names-clash"
        assert list(foreign_store.contents(live_set_id)) == []
    foreign_store.add_contents(live_set_id, [reference("id")])
    with pytest.raises(UnsafeToSweepError):
        foreign_store.add_contents(live_set_id, [reference("x"), reference("ID")])
    assert [ref.content_id for ref in foreign_store.contents(live_set_id)] == ["id"]


def test_locations_that_differ_by_case_stay_two(foreign_store: LiveSetStore) -> None:
    """SELECT DISTINCT would make one of them, and the other's files would be swept."""
    live_set_id = new_live_set_id()
    foreign_store.start_identify(live_set_id, AT)
    foreign_store.add_contents(
        live_set_id,
        [reference("c1", "aa", "s3://lake/T/1.json"), reference("c1", "bb", "s3://lake/t/1.json")],
    )
    found = [content.metadata_location for content in foreign_store.distinct_contents(live_set_id)]
    assert found == ["s3://lake/T/1.json", "s3://lake/t/1.json"]


def test_characters_that_a_table_lacks_are_refused(foreign_store: LiveSetStore) -> None:
    """Never stored as question marks; what the table has comes back as it is."""
    live_set_id = new_live_set_id()
    foreign_store.start_identify(live_set_id, AT)
    good = reference("c1", "aa", "s3://lake/münchen/1.json")
    with pytest.raises(CatalogError) as refusal:
        foreign_store.add_contents(live_set_id, [good, reference("c2", "aa", "s3://lake/日本")])
    assert "Incorrect string value" in refusal.value.message
    assert list(foreign_store.contents(live_set_id)) == []
    assert foreign_store.add_contents(live_set_id, [good]) == 1
    assert list(foreign_store.contents(live_set_id)) == [good]


def test_lacking_rights_are_told_apart(mariadb: MariaDBServer, postgres: PostgresServer) -> None:
    """A wrong password and a missing grant are for whoever gives rights, not for a retry."""
    name = unique()
    mariadb.make_database(name)
    url = postgres.make_database(name)
    run_on_mariadb(mariadb, name, f"CREATE USER '{name}'@'%' IDENTIFIED BY 'right'")
    with open_live_sets(url) as store:
        store.create_schema(SchemaStrategy.CREATE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
    for address, password in (
        (f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{name}", "wrong"),
        (f"jdbc:mariadb://127.0.0.1:{mariadb.port}/{name}", "right"),  # no grant on the database
        (f"jdbc:postgresql://127.0.0.1:{postgres.port}/{name}?sslmode=disable", "any"),
    ):
        with (
            open_live_sets(address, user=name, password=password) as store,
            pytest.raises(CatalogDeniedError) as refusal,
        ):
            store.all()
        assert refusal.value.kind == "live-sets-denied"
        assert "wrong" not in refusal.value.message


def test_server_that_goes_away_is_an_error(postgres: PostgresServer) -> None:
    """Half-way through a call: what it would have stored is not stored, and the next call connects anew."""
    url = postgres.make_database(unique())
    live_set_id = new_live_set_id()
    with open_live_sets(url) as store:
        store.create_schema(SchemaStrategy.CREATE)
        store.start_identify(live_set_id, AT)

        def references() -> Iterator[ContentReference]:
            for number in range(6000):
                if number == 5000:
                    with psycopg.connect(postgres.database_url, autocommit=True) as other:
                        other.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE datname = %s AND pid <> pg_backend_pid()",
                            (url.rpartition("/")[2].partition("?")[0],),
                        )
                yield reference(f"c{number}")

        with pytest.raises(CatalogError) as refusal:
            store.add_contents(live_set_id, references())
        assert refusal.value.kind == "live-sets"
        assert list(store.contents(live_set_id)) == []
        assert store.add_contents(live_set_id, [reference()]) == 1
