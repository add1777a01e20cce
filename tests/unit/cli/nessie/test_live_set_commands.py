"""list, show, list-deferred, delete and the schema commands, on a database of this test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.lease import Lease
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    DeferredFile,
    LiveSetId,
    MarkFacts,
    new_live_set_id,
)
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions, open_store

AT = datetime(2026, 5, 1, 12, 0, 0, 123000, tzinfo=UTC)
FACTS = MarkFacts("http://nessie/api/v2", AT, "P7D", (("main", "10"),), False, {}, (), ())
COMMIT = "a1" * 32


@pytest.fixture
def live_sets(database: str) -> Iterator[LiveSetStore]:
    with open_live_sets(database) as store:
        yield store


def a_set(live_sets: LiveSetStore, created: datetime = AT, *, expired: bool = True) -> str:
    """A live set with one table, one base location and two recorded files."""
    live_set_id = new_live_set_id()
    live_sets.start_identify(live_set_id, created)
    table = ContentReference(
        "c-1", COMMIT, ("db", "t"), ContentKind.ICEBERG_TABLE, "s3://lake/t/metadata/1.json", 42
    )
    live_sets.add_contents(live_set_id, [table])
    live_sets.finish_identify(live_set_id, created + timedelta(seconds=2), FACTS)
    if expired:
        live_sets.start_expire(live_set_id, created + timedelta(hours=1))
        live_sets.add_base_locations(live_set_id, [("c-1", "s3://lake/t/")])
        files = [
            DeferredFile("s3://lake/t/", "data/old.parquet", created - timedelta(days=9)),
            DeferredFile("s3://lake/t/", "data/unknown.parquet", None),
        ]
        live_sets.add_deferred(live_set_id, files)
        live_sets.finish_expire(live_set_id, created + timedelta(hours=2))
    return live_set_id


def test_list_is_cut_as_scripts_cut_it(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """Two lines of heading, then the newest set first, each line beginning with its id."""
    older = a_set(live_sets)
    newer = a_set(live_sets, AT + timedelta(days=1), expired=False)
    lines = shell("list", "--jdbc-url", database, "--time-zone", "Asia/Tokyo").splitlines()
    assert lines[0] == "Timestamps shown in Asia/Tokyo"
    assert lines[1].split() == (
        [
            "ID",
            "Status",
            "Created",
            "Identify",
            "complete",
            "Expiry",
            "started",
            "Expiry",
            "finished",
            "Error",
        ]
    )
    assert [line.partition(" ")[0] for line in lines[2:]] == [newer, older]
    # The columns' places are part of it.
    status, created, identified = lines[3][38:60], lines[3][62:87], lines[3][88:113]
    assert status.strip() == "EXPIRY_SUCCESS"
    assert created.strip() == "2026-05-01T21:00:00"
    assert identified.strip() == "2026-05-01T21:00:02"
    assert lines[3][114:139].strip() == "2026-05-01T22:00:00"
    assert lines[3][140:165].strip() == "2026-05-01T23:00:00"


def test_list_as_json(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """Times are UTC whatever the zone."""
    live_set_id = a_set(live_sets)
    words = ["--jdbc-url", database, "--time-zone", "Asia/Tokyo", "--output", "json"]
    (found,) = json.loads(shell("list", *words))["live_sets"]
    assert found == {
        "live_set_id": live_set_id,
        "status": "EXPIRY_SUCCESS",
        "created": "2026-05-01T12:00:00.123000Z",
        "identify_finished": "2026-05-01T12:00:02.123000Z",
        "expire_started": "2026-05-01T13:00:00.123000Z",
        "expire_finished": "2026-05-01T14:00:00.123000Z",
        "error": None,
    }


def test_a_failed_set_shows_its_error(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """At the end of its line, which stays one; `show` has it as it is."""
    live_set_id = new_live_set_id()
    live_sets.start_identify(live_set_id, AT)
    live_sets.fail_identify(live_set_id, AT, "Nessie\nwas away")
    (line,) = shell("list", "--jdbc-url", database).splitlines()[2:]
    assert line.endswith(" Nessie was away")
    assert "IDENTIFY_FAILED" in line
    assert "Nessie\nwas away" in shell("show", "--jdbc-url", database, "-l", live_set_id)


def test_show(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """Labels of 18 places; `Created` is UTC, the others are in the zone, as in the original."""
    live_set_id = a_set(live_sets)
    words = ["--jdbc-url", database, "-l", live_set_id.upper(), "--time-zone", "+02:00"]
    lines = shell("show", *words).splitlines()
    shown = {line[:18].strip(): line[19:] for line in lines[2:]}
    assert shown["ID"] == live_set_id
    assert shown["Status"] == "EXPIRY_SUCCESS"
    assert shown["Created"] == "2026-05-01T12:00:00.123000Z"
    assert shown["Identify complete"] == "2026-05-01T14:00:02"
    assert shown["Expiry finished"] == "2026-05-01T16:00:00"
    assert shown["Error"] == ""
    assert shown["Content count"] == "1"
    assert shown["Catalog"] == "http://nessie/api/v2"
    assert shown["Default cut-off"] == "P7D"
    assert shown["Cut-off"] == "main = 10"
    assert "End of listing." not in lines


def test_show_with_everything(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """Letters in one cluster; each section has an end."""
    live_set_id = a_set(live_sets)
    out = shell("show", "--jdbc-url", database, "-l", live_set_id, "-DCB")
    lines = out.splitlines()
    start = lines.index("List of base locations and content references:")
    assert lines[start + 1] == "  Content ID c-1"
    assert lines[start + 2] == "    Base location: s3://lake/t/"
    row = lines[start + 4]
    assert row.split() == ["ICEBERG_TABLE", COMMIT, "db.t", "42", "s3://lake/t/metadata/1.json"]
    assert row.index(COMMIT) == 20
    assert row.index("db.t") == 85
    assert row.index("42", 100) == 136
    start = lines.index("List of deferred deletes:")
    assert lines[start + 1].split() == ["Modified", "Base", "URI", "File", "path"]
    assert lines[start + 2] == (
        f"{'2026-04-22T12:00:00.123000Z':<35} {'s3://lake/t/':<60} data/old.parquet"
    )
    assert lines[start + 3].startswith("unknown ")
    assert lines.count("End of listing.") == 2


def test_show_single_sections(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """Each by its own flag."""
    live_set_id = a_set(live_sets)
    words = ["show", "--jdbc-url", database, "-l", live_set_id]
    places = shell(*words, "--with-base-locations")
    assert "List of base locations:" in places
    assert "  Content ID c-1\n    Base location: s3://lake/t/\nEnd of listing.\n" in places
    contents = shell(*words, "--with-content-references")
    assert "List of content references:" in contents
    assert "Base location" not in contents


def test_show_as_json(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """One document, lists only where asked for."""
    live_set_id = a_set(live_sets)
    words = ["show", "--jdbc-url", database, "-l", live_set_id, "--output", "json"]
    plain = json.loads(shell(*words))
    assert plain["content_count"] == 1
    assert plain["mark"]["cutoffs"] == [["main", "10"]]
    assert "content_references" not in plain
    full = json.loads(shell(*words, "-D", "-C", "-B"))
    assert [r["content_key"] for r in full["content_references"]] == [["db", "t"]]
    assert full["base_locations"] == [{"content_id": "c-1", "location": "s3://lake/t/"}]
    assert [f["uri"] for f in full["deferred_deletes"]] == [
        "s3://lake/t/data/old.parquet",
        "s3://lake/t/data/unknown.parquet",
    ]


def test_list_deferred(shell: Any, database: str, live_sets: LiveSetStore, tmp_path: Path) -> None:
    """The set's row, then the files, then the end; the id may come from a file without a directory part."""
    live_set_id = a_set(live_sets)
    (tmp_path / "id.txt").write_text(f"{live_set_id}\nanything else\n")
    lines = shell("list-deferred", "--jdbc-url", database, "-L", "id.txt").splitlines()
    assert lines[0] == "List of deferred-file-deletions:"
    assert lines[3].startswith(live_set_id)
    assert lines[6].endswith(" data/old.parquet")
    assert lines[-1] == "End of listing."
    words = ["--jdbc-url", database, "-L", "id.txt", "--output", "json"]
    assert len(json.loads(shell("list-deferred", *words))["deferred_deletes"]) == 2


def test_list_deferred_of_an_unfinished_expiry_is_refused(
    shell: Any, database: str, live_sets: LiveSetStore
) -> None:
    """Its list is not complete."""
    live_set_id = a_set(live_sets, expired=False)
    assert shell("list-deferred", "--jdbc-url", database, "-l", live_set_id, status=2) == ""
    assert "Expected live-set to have status EXPIRY_SUCCESS, but status is IDENTIFY_SUCCESS" in (
        shell.err
    )


def test_delete(shell: Any, database: str, live_sets: LiveSetStore) -> None:
    """The set and all its rows go; no file of the lake does, and the line says so."""
    gone, kept = a_set(live_sets), a_set(live_sets)
    out = shell("delete", "--jdbc-url", database, "--live-set-id", gone)
    assert f"Live content set {gone} successfully deleted. No file" in out
    assert [live_set.id for live_set in live_sets.all()] == [kept]
    shell("delete", "--jdbc-url", database, "--live-set-id", gone, status=3)
    words = ["--jdbc-url", database, "-l", kept, "--output", "json"]
    assert json.loads(shell("delete", *words))["live_set_id"] == kept


def test_the_schema_is_made_once(shell: Any, database: str) -> None:
    """CREATE, the default, fails where tables are; the other strategies do what their names say."""
    words = ["create-sql-schema", "--jdbc-url", database]
    assert shell(*words, status=2) == ""
    assert "already" in shell.err
    assert shell(*words, "--jdbc-schema", "CREATE_IF_NOT_EXISTS").endswith("Done.\n")
    out = shell(*words, "--jdbc-schema", "DROP_AND_CREATE")
    assert out.index("DROP TABLE") < out.index("CREATE TABLE")
    document = json.loads(shell(*words, "--jdbc-schema=DROP_AND_CREATE", "--output", "json"))
    assert any(statement.startswith("CREATE TABLE") for statement in document["statements"])


def test_the_schema_may_be_made_by_a_command_that_needs_it(shell: Any, tmp_path: Path) -> None:
    """--jdbc-schema makes it, and it stays; the original forgets to commit."""
    url = f"sqlite:///{tmp_path}/new.db"
    shell("list", "--jdbc-url", url, "--jdbc-schema", "CREATE_IF_NOT_EXISTS")
    assert shell("list", "--jdbc-url", url).startswith("Timestamps")


def test_the_schema_script(shell: Any, tmp_path: Path) -> None:
    """Statements that end in a semicolon and a blank line; no database is asked."""
    script = shell("show-sql-create-schema-script")
    statements = [part for part in script.split(";\n\n") if part]
    names = [statement.split()[2] for statement in statements]
    assert names[:4] == [
        "gc_live_sets",
        "gc_live_set_contents",
        "gc_live_set_content_locations",
        "gc_file_deletions",
    ]
    assert all(statement.startswith("CREATE TABLE") for statement in statements)
    assert shell("show-sql-create-schema-script", "--output-file", "schema.sql") == ""
    assert (tmp_path / "schema.sql").read_text() == script
    shell("show-sql-create-schema-script", "--output-file", "no/such/folder.sql", status=2)


def test_versions_and_help(shell: Any) -> None:
    """-V prints the bare version; help knows commands and aliases."""
    version = shell("-V")
    assert version.strip().replace(".", "").isdigit()
    assert shell("sweep", "--version") == version
    assert shell("mark-live", "-V") == version
    assert "mark-live" in shell("help")
    for name in ("expire", "sweep", "identify", "mark", "mark-live", "list", "gc"):
        assert f"lakesweep nessie {name}" in shell("help", name)
    assert "exact hash" in shell("help", "expire")
    shell("help", "nonsense", status=2)
    assert "Apache License" in shell("show-licenses")


@pytest.mark.parametrize("is_named", [False, True], ids=["where it ran", "where it is told"])
def test_delete_removes_the_files_of_its_runs(
    shell: Any, database: str, live_sets: LiveSetStore, tmp_path: Path, is_named: bool
) -> None:
    """And no other set's; nothing else would ever remove them."""
    gone, kept = (a_set(live_sets, expired=False) for _ in range(2))
    work = tmp_path / "work"
    live_sets.start_expire(LiveSetId(gone), AT, work="" if is_named else work.as_uri())
    for live_set_id in (gone, kept):
        (work / live_set_id / "ledger").mkdir(parents=True)
        (work / live_set_id / "ledger" / "a.parquet").write_text("x")
    words = ["--work-location", work.as_uri()] if is_named else []
    out = shell("delete", "--jdbc-url", database, "-l", gone, *words)
    assert "files of its runs" in out
    assert not (work / gone).exists() or not list((work / gone).rglob("*.*"))
    assert list((work / kept).rglob("*.parquet"))


def test_a_set_that_a_run_works_on_is_not_deleted(
    shell: Any, database: str, live_sets: LiveSetStore, tmp_path: Path
) -> None:
    """Its plan and ledger are in use."""
    live_set_id = LiveSetId(a_set(live_sets))
    store = open_store(Location.parse(tmp_path.as_uri()), StorageOptions())
    words = ["--jdbc-url", database, "-l", live_set_id, "--work-location", tmp_path.as_uri()]
    with Lease(store, "x", "expiry", folder=f"{live_set_id}/"):
        shell("delete", *words, status=4)
    assert live_sets.get(live_set_id)
