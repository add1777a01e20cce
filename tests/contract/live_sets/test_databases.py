"""What holds for every database: schema strategies, columns' lengths, zones, and sets that nessie-gc wrote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, inspect, text

from lakesweep.catalogs.nessie.live_sets.connecting import make_engine
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy, schema_script
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent, LiveSetStore
from lakesweep.catalogs.nessie.live_sets.urls import parse_database_url
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    DeferredFile,
    LiveSetId,
    LiveSetStatus,
    MarkFacts,
    new_live_set_id,
)
from lakesweep.errors import CatalogError, ConfigError, FormatError, UnsafeToSweepError
from lakesweep_testing.meddled_database import DatabaseCall, through_database

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
NESSIE_GC_TABLES = (
    *("gc_live_sets", "gc_live_set_contents"),
    *("gc_live_set_content_locations", "gc_file_deletions"),
)
MakeReference = Callable[..., ContentReference]


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection beside the store's own, as another program would have it."""
    engine = make_engine(parse_database_url(url), pool_size=2)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def tables_in(url: str) -> set[str]:
    with connected(url) as connection:
        return set(inspect(connection).get_table_names())


def make_nessie_gc_tables(url: str) -> None:
    """As nessie-gc leaves a database: its four tables and none of ours."""
    statements = [s for s in schema_script().split(";\n\n") if "TABLE gc_" in s]
    assert len(statements) == 4
    with connected(url) as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_create_makes_all_tables_once(database_url: str) -> None:
    """CREATE is refused where a table is there, and what is there stays; other connections see the tables."""
    with open_live_sets(database_url) as store:
        assert len(store.create_schema(SchemaStrategy.CREATE)) == 5
        assert tables_in(database_url) == {*NESSIE_GC_TABLES, "lakesweep_live_set_facts"}
        live_set_id = new_live_set_id()
        store.start_identify(live_set_id, AT)
        with pytest.raises(ConfigError, match="gc_live_sets") as refusal:
            store.create_schema(SchemaStrategy.CREATE)
        assert refusal.value.kind == "schema-exists"
        assert store.get(live_set_id).id == live_set_id


def test_create_if_not_exists_makes_what_is_missing(database_url: str) -> None:
    """And keeps the rest."""
    with open_live_sets(database_url) as store:
        store.create_schema(SchemaStrategy.CREATE_IF_NOT_EXISTS)
        live_set_id = new_live_set_id()
        store.start_identify(live_set_id, AT)
        with connected(database_url) as connection:
            connection.execute(text("DROP TABLE gc_file_deletions"))
        done = store.create_schema(SchemaStrategy.CREATE_IF_NOT_EXISTS)
        assert "gc_file_deletions" in done[0]
        assert tables_in(database_url) == {*NESSIE_GC_TABLES, "lakesweep_live_set_facts"}
        assert [live_set.id for live_set in store.all()] == [live_set_id]


def test_drop_and_create_starts_over(database_url: str) -> None:
    """All sets are gone, facts included; it works on an empty database, too."""
    with open_live_sets(database_url) as store:
        for _ in range(2):
            store.create_schema(SchemaStrategy.DROP_AND_CREATE)
            assert store.all() == []
            store.start_identify(new_live_set_id(), AT)
        store.create_schema(SchemaStrategy.DROP_AND_CREATE)
        with connected(database_url) as connection:
            count = connection.execute(text("SELECT COUNT(*) FROM lakesweep_live_set_facts"))
            assert count.scalar_one() == 0


def test_missing_tables_are_a_matter_of_set_up(database_url: str) -> None:
    """The error says what to run, not what the driver thinks."""
    with open_live_sets(database_url) as store:
        for call in (
            store.all,
            lambda: store.get(new_live_set_id()),
            lambda: store.start_identify(new_live_set_id(), AT),
        ):
            with pytest.raises(ConfigError, match="create-sql-schema") as refusal:
                call()
            assert refusal.value.kind == "no-schema"


def test_columns_are_those_of_nessie_gc(database: LiveSetStore, database_url: str) -> None:
    """Names, order, lengths and keys, as its own tables have them."""
    lengths: dict[str, dict[str, int | None]] = {
        "gc_live_sets": {
            **{"live_set_id": 40, "set_status": 40, "identify_started": None},
            **{"identify_finished": None, "expire_started": None, "expire_finished": None},
            "error_message": 2000,
        },
        "gc_live_set_contents": {
            **{"live_set_id": 40, "content_id": 200, "commit_id": 100, "content_key": 500},
            **{"content_type": 40, "metadata_location": 1000, "snapshot_id": None},
        },
        "gc_live_set_content_locations": {
            **{"live_set_id": 40, "content_id": 200, "base_location": 500}
        },
        "gc_file_deletions": {
            **{"live_set_id": 40, "base_uri": 250, "path_uri": 250, "modification_timestamp": None}
        },
    }
    with connected(database_url) as connection:
        inspector = inspect(connection)
        for table, columns in lengths.items():
            found = inspector.get_columns(table)
            assert {c["name"]: getattr(c["type"], "length", None) for c in found} == columns
            assert [c["name"] for c in found] == list(columns)
            key = inspector.get_pk_constraint(table)["constrained_columns"]
            assert key == list(columns)[: len(key)]
            assert len(key) == {"gc_live_sets": 1}.get(table, 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"content_id": "x" * 201},
        {"commit_id": "x" * 101},
        {"content_key": ("x" * 400, "é" * 100)},
        {"metadata_location": "s3://" + "x" * 996},
        {"metadata_location": "s3://lake/\0"},
        {"metadata_location": "s3://lake/\ud800é"},
    ],
)
def test_values_that_do_not_fit_are_refused(
    database: LiveSetStore, make_reference: MakeReference, fields: dict[str, Any]
) -> None:
    """On every database, and nothing of the call is stored: a cut location would protect nothing."""
    live_set_id = new_live_set_id()
    database.start_identify(live_set_id, AT)
    good = [make_reference(f"c{number}") for number in range(3000)]
    with pytest.raises(UnsafeToSweepError) as refusal:
        database.add_contents(live_set_id, [*good, make_reference(**fields)])
    assert refusal.value.kind in {"too-long", "not-storable"}
    assert list(database.contents(live_set_id)) == []


def test_longest_values_fit(
    database: LiveSetStore, make_reference: MakeReference, facts: MarkFacts
) -> None:
    """A column's whole length can be used, with any characters."""
    live_set_id = new_live_set_id()
    reference = make_reference(
        "😀" * 200, "é" * 100, content_key=("k" * 500,), metadata_location="日" * 1000
    )
    database.start_identify(live_set_id, AT)
    database.add_contents(live_set_id, [reference])
    assert list(database.contents(live_set_id)) == [reference]
    database.finish_identify(live_set_id, AT, facts)
    database.start_expire(live_set_id, AT)
    file = DeferredFile("😀" * 250, "日" * 250, None)
    assert database.add_deferred(live_set_id, [file, file]) == 1
    assert list(database.deferred(live_set_id)) == [file]
    database.add_base_locations(live_set_id, [("😀" * 200, "日" * 500)])
    assert list(database.base_locations(live_set_id)) == [("😀" * 200, "日" * 500)]
    for call in (
        lambda: database.add_deferred(live_set_id, [DeferredFile("x/", "p" * 251, None)]),
        lambda: database.add_base_locations(live_set_id, [("c1", "s3://" + "x" * 496)]),
    ):
        with pytest.raises(UnsafeToSweepError, match="has room for") as refusal:
            call()
        assert refusal.value.kind == "too-long"


_TOKYO = """
import sys
from datetime import UTC, datetime
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.domain.live_sets import LiveSetId
url, live_set_id, action = sys.argv[1:]
at = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
with open_live_sets(url) as store:
    if action == "write":
        store.start_identify(LiveSetId(live_set_id), at)
        store.fail_identify(LiveSetId(live_set_id), at, "x")
    found = store.get(LiveSetId(live_set_id))
    print(found.created.isoformat(), found.identify_finished.isoformat())
"""


def test_times_are_utc_in_any_zone(database: LiveSetStore, database_url: str) -> None:
    """Written in Tokyo and read here, written here and read in Tokyo: the same instants, and UTC in the column."""

    def in_tokyo(live_set_id: LiveSetId, action: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", _TOKYO, database_url, live_set_id, action],
            env={**os.environ, "TZ": "Asia/Tokyo", "PGTZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    there, here = new_live_set_id(), new_live_set_id()
    noon = f"{AT.isoformat()} {AT.isoformat()}\n"
    assert in_tokyo(there, "write") == noon
    found = database.get(there)
    assert (found.created, found.identify_finished) == (AT, AT)
    database.start_identify(here, AT)
    database.fail_identify(here, AT, "x")
    assert in_tokyo(here, "read") == noon
    with connected(database_url) as connection:
        columns = connection.execute(
            text("SELECT identify_started, identify_finished FROM gc_live_sets")
        )
        for row in columns:
            assert [str(value)[:19] for value in row] == ["2026-05-01 12:00:00"] * 2


@pytest.fixture
def foreign_set(database_url: str) -> LiveSetId:
    """A set as nessie-gc writes it, in Tokyo, into a database that it set up."""
    make_nessie_gc_tables(database_url)
    live_set_id = new_live_set_id()
    with connected(database_url) as connection:
        connection.execute(
            text(
                "INSERT INTO gc_live_sets (live_set_id, set_status, identify_started, identify_finished) "
                "VALUES (:id, 'IDENTIFY_SUCCESS', '2026-05-01 21:00:00', '2026-05-01 21:00:05')"
            ),
            {"id": live_set_id},
        )
        rows = [
            ("c1", "aa", "db.a\x1db", "ICEBERG_TABLE", "s3://lake/t/metadata/1.json", 7),
            ("c1", "bb", "db.a\x1db", "ICEBERG_TABLE", "s3://lake/t/metadata/1.json", 7),
            ("c2", "bb", ".db.v*.1", "ICEBERG_VIEW", "file:///lake/v/1.json", 1),
        ]
        names = ("content", "commit", "key", "type", "location", "snapshot")
        connection.execute(
            text(
                "INSERT INTO gc_live_set_contents VALUES "
                "(:id, :content, :commit, :key, :type, :location, :snapshot)"
            ),
            [{"id": live_set_id, **dict(zip(names, row, strict=True))} for row in rows],
        )
    return live_set_id


def test_set_of_nessie_gc_is_read_and_expired(database_url: str, foreign_set: LiveSetId) -> None:
    """No facts, the zone's own time taken as UTC; its expiry is recorded where nessie-gc looks for it."""
    with open_live_sets(database_url) as store:
        (found,) = store.all()
        assert found == store.get(foreign_set)
        assert found.created == datetime(2026, 5, 1, 21, 0, tzinfo=UTC)
        assert store.facts(foreign_set) is None
        assert "lakesweep_live_set_facts" not in tables_in(database_url)  # reading makes nothing
        assert [ref.content_key for ref in store.contents(foreign_set)] == [
            *(("db", "a.b"), ("db", "a.b"), ("db", "v.1"))
        ]
        assert list(store.distinct_contents(foreign_set)) == [
            DistinctContent("c1", ContentKind.ICEBERG_TABLE, "s3://lake/t/metadata/1.json", 7),
            DistinctContent("c2", ContentKind.ICEBERG_VIEW, "file:///lake/v/1.json", 1),
        ]
        store.start_expire(foreign_set, AT)
        store.add_base_locations(foreign_set, [("c1", "s3://lake/t/")])
        modified = datetime(2026, 4, 1, 0, 0, 0, 5000, tzinfo=UTC)
        store.add_deferred(foreign_set, [DeferredFile("s3://lake/t/", "data/x", modified)])
        store.start_expire(foreign_set, AT, again=True)  # ours, so it can be repeated
        store.finish_expire(foreign_set, AT)
        assert store.facts(foreign_set) is None
    with connected(database_url) as connection:
        status = connection.execute(text("SELECT set_status FROM gc_live_sets")).scalar_one()
        assert status == "EXPIRY_SUCCESS"
        row = connection.execute(text("SELECT * FROM gc_file_deletions")).one()
        assert tuple(row) == (foreign_set, "s3://lake/t/", "data/x", 1775001600005)


def test_expiry_of_nessie_gc_is_not_repeated(database_url: str, foreign_set: LiveSetId) -> None:
    """How far the other tool came is not known, so `again` does not take its set over."""
    with connected(database_url) as connection:
        connection.execute(text("UPDATE gc_live_sets SET set_status = 'EXPIRY_IN_PROGRESS'"))
    with open_live_sets(database_url) as store:
        with pytest.raises(ConfigError) as refusal:
            store.start_expire(foreign_set, AT, again=True)
        assert refusal.value.kind == "wrong-status"
        store.delete(foreign_set)
        assert store.all() == []


def test_mark_in_a_database_of_nessie_gc(
    database_url: str, make_reference: MakeReference, facts: MarkFacts
) -> None:
    """Our table is made when the first mark needs it."""
    make_nessie_gc_tables(database_url)
    live_set_id = new_live_set_id()
    with open_live_sets(database_url) as store:
        store.start_identify(live_set_id, AT)
        store.add_contents(live_set_id, [make_reference()])
        store.finish_identify(live_set_id, AT, facts)
        assert store.facts(live_set_id) == facts


@pytest.mark.parametrize(
    ("damage", "look"),
    [
        ("UPDATE gc_live_sets SET set_status = 'DONE'", lambda s, i: s.get(i)),
        ("DELETE FROM lakesweep_live_set_facts WHERE fact = 'mark'", lambda s, i: s.facts(i)),
        ("UPDATE lakesweep_live_set_facts SET fact_text = '{'", lambda s, i: s.facts(i)),
        (
            "UPDATE gc_live_set_contents SET metadata_location = NULL",
            lambda s, i: list(s.distinct_contents(i)),
        ),
        (
            "UPDATE gc_live_set_contents SET content_type = 'UDF'",
            lambda s, i: list(s.contents(i)),
        ),
        ("UPDATE gc_live_set_contents SET snapshot_id = NULL", lambda s, i: list(s.contents(i))),
    ],
)
def test_damaged_rows_are_doubt(
    database: LiveSetStore,
    database_url: str,
    make_reference: MakeReference,
    facts: MarkFacts,
    damage: str,
    look: Callable[[LiveSetStore, LiveSetId], object],
) -> None:
    """A row that can't be what we wrote is never read as less than it was."""
    live_set_id = new_live_set_id()
    database.start_identify(live_set_id, AT)
    database.add_contents(live_set_id, [make_reference()])
    database.finish_identify(live_set_id, AT, facts)
    with connected(database_url) as connection:
        connection.execute(text(damage))
    with pytest.raises(FormatError):
        look(database, live_set_id)


def test_set_deleted_while_it_is_read_is_no_end(
    database: LiveSetStore, database_url: str, make_reference: MakeReference
) -> None:
    """Half of a live set must not pass for the whole: its other half would be swept."""
    live_set_id = new_live_set_id()
    database.start_identify(live_set_id, AT)
    database.add_contents(live_set_id, (make_reference(f"c{n}") for n in range(12_000)))
    reader = database.distinct_contents(live_set_id)
    next(reader)
    with open_live_sets(database_url) as other:
        other.delete(live_set_id)
    with pytest.raises(CatalogError) as refusal:
        list(reader)
    assert refusal.value.kind == "no-live-set"


def test_large_set_is_stored_and_streamed(
    database: LiveSetStore, make_reference: MakeReference
) -> None:
    """30,000 contents take some hundred statements, not one each, and are read some at a time."""
    live_set_id = new_live_set_id()
    database.start_identify(live_set_id, AT)
    statements: list[str] = []
    engine = database._engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", lambda *said: statements.append(said[2]))
    source = (make_reference(f"content-{n % 500:03d}", f"{n:064x}") for n in range(30_000))
    assert database.add_contents(live_set_id, source) == 30_000
    assert 0 < len(statements) < 300
    assert sum(1 for _ in database.contents(live_set_id)) == 30_000
    assert len(list(database.distinct_contents(live_set_id))) == 500
    assert database.content_count(live_set_id) == 500
    assert len(statements) < 300


def test_other_programs_may_add_the_same_rows(
    database: LiveSetStore, database_url: str, make_reference: MakeReference
) -> None:
    """Rows that are there already are passed over, wherever they stand in a batch."""
    live_set_id = new_live_set_id()
    database.start_identify(live_set_id, AT)
    database.add_contents(live_set_id, (make_reference(f"c{n:05d}") for n in range(0, 6000, 3)))
    with open_live_sets(database_url) as other:
        assert (
            other.add_contents(live_set_id, (make_reference(f"c{n:05d}") for n in range(6000)))
            == 4000
        )
    assert len(list(database.contents(live_set_id))) == 6000


def test_script_is_what_the_reference_says() -> None:
    """Four statements of nessie-gc's tables and one of ours, each ended by a semicolon and a blank line."""
    statements = schema_script().split(";\n\n")
    assert statements.pop() == ""
    words = [re.sub(r"\s+", " ", statement) for statement in statements]
    assert words == [
        "CREATE TABLE gc_live_sets ( live_set_id VARCHAR(40), set_status VARCHAR(40), "
        "identify_started TIMESTAMP, identify_finished TIMESTAMP, expire_started TIMESTAMP, "
        "expire_finished TIMESTAMP, error_message VARCHAR(2000), PRIMARY KEY (live_set_id) )",
        "CREATE TABLE gc_live_set_contents ( live_set_id VARCHAR(40), content_id VARCHAR(200), "
        "commit_id VARCHAR(100), content_key VARCHAR(500), content_type VARCHAR(40), "
        "metadata_location VARCHAR(1000), snapshot_id BIGINT, "
        "PRIMARY KEY (live_set_id, content_id, commit_id) )",
        "CREATE TABLE gc_live_set_content_locations ( live_set_id VARCHAR(40), "
        "content_id VARCHAR(200), base_location VARCHAR(500), "
        "PRIMARY KEY (live_set_id, content_id, base_location) )",
        "CREATE TABLE gc_file_deletions ( live_set_id VARCHAR(40), base_uri VARCHAR(250), "
        "path_uri VARCHAR(250), modification_timestamp BIGINT, "
        "PRIMARY KEY (live_set_id, base_uri, path_uri) )",
        "CREATE TABLE lakesweep_live_set_facts ( live_set_id VARCHAR(40), fact VARCHAR(40), "
        "part INTEGER, fact_text TEXT, PRIMARY KEY (live_set_id, fact, part) )",
    ]


def test_status_names_are_those_of_nessie_gc() -> None:
    """The other tool reads them."""
    assert [status.value for status in LiveSetStatus] == [
        *("IDENTIFY_IN_PROGRESS", "IDENTIFY_SUCCESS", "IDENTIFY_FAILED"),
        *("EXPIRY_IN_PROGRESS", "EXPIRY_SUCCESS", "EXPIRY_FAILED"),
    ]


def test_a_page_that_leaves_rows_out_is_no_end(
    tmp_path: Path, make_reference: MakeReference, facts: MarkFacts
) -> None:
    """What the missing rows name would look like garbage; a damaged index leaves rows out, and says nothing."""
    live_set_id = new_live_set_id()

    def cut_short(call: DatabaseCall) -> None:
        if call.name == "SELECT gc_live_set_contents" and "count" not in call.text:
            call.change_rows(lambda rows: rows[:-1])
        else:
            call.carry_out()

    with open_live_sets(f"sqlite:///{tmp_path}/live-sets.db") as database:
        database.create_schema(SchemaStrategy.CREATE)
        database.start_identify(live_set_id, AT)
        database.add_contents(live_set_id, [make_reference(), make_reference(commit="bb")])
        database.finish_identify(live_set_id, AT, facts)
        with through_database(cut_short), pytest.raises(CatalogError, match="1 of 2 rows"):
            list(database.distinct_contents(live_set_id))
