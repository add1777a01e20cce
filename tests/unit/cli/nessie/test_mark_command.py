"""mark-live on a Nessie server of this process: its live set, its id file, its result line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.domain.live_sets import LiveSetId
from lakesweep_testing.fake_nessie import FakeNessie, delta_table, table

RESULT = re.compile(
    r"^Finished Nessie-GC identify phase finished with status IDENTIFY_SUCCESS after PT[0-9.]+S, "
    r"live-content-set ID is ([0-9a-f-]{36})\.$",
    re.M,
)


@pytest.fixture
def nessie() -> Iterator[FakeNessie]:
    with FakeNessie() as server:
        for number in range(3):
            server.commit("main", {("db", "t"): table(f"file:///lake/t/metadata/{number}.json", 1)})
        yield server


def keys_of(database: str, live_set_id: str) -> list[str]:
    with open_live_sets(database) as live_sets:
        found = live_sets.contents(LiveSetId(live_set_id))
        return sorted(reference.metadata_location.rpartition("/")[2] for reference in found)


@pytest.mark.parametrize("name", ["mark-live", "identify", "mark"])
def test_every_name_marks(shell: Any, nessie: FakeNessie, database: str, name: str) -> None:
    """The result line is nessie-gc's, word for word; the catalog is as it was."""
    before = nessie.heads()
    out = shell(name, "--jdbc-url", database, "-u", nessie.uri)
    found = RESULT.search(out)
    assert found is not None, out
    assert keys_of(database, found[1]) == ["0.json", "1.json", "2.json"]
    assert nessie.heads() == before
    assert {method for method, _, _ in nessie.requests} == {"GET"}


def test_policies_reach_the_walk(shell: Any, nessie: FakeNessie, database: str) -> None:
    """By pattern, else the default; all are kept with the set."""
    nessie.create_branch("dev")
    words = ["--jdbc-url", database, "-u", nessie.uri, "--output", "json"]
    marked = json.loads(shell("mark-live", *words, "-c", "1", "--cutoff", "main=2,dev=P10D"))
    assert marked["status"] == "IDENTIFY_SUCCESS"
    assert marked["commits_read"] >= 3
    with open_live_sets(database) as live_sets:
        facts = live_sets.facts(LiveSetId(marked["live_set_id"]))
    assert facts is not None
    assert facts.default_policy == "1"
    assert facts.policies == (("main", "2"), ("dev", "P10D"))
    assert facts.catalog_uri == nessie.uri


def test_reference_time_and_state_at_the_cut_off(
    shell: Any, nessie: FakeNessie, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Durations count back from --cutoff-ref-time, in any zone."""
    monkeypatch.setenv("LAKESWEEP_NESSIE_KEEP_STATE_AT_CUTOFF", "true")
    words = ["--jdbc-url", database, "-u", nessie.uri, "--output", "json"]
    time = "2020-01-01T01:00:00+01:00[Europe/Paris]"
    marked = json.loads(shell("mark-live", *words, "-R", time, "-c", "P1D"))
    with open_live_sets(database) as live_sets:
        facts = live_sets.facts(LiveSetId(marked["live_set_id"]))
    assert facts is not None
    assert facts.reference_time == datetime(2020, 1, 1, tzinfo=UTC)
    assert facts.keep_state_at_cutoff is True


@pytest.mark.parametrize("file", ["id.txt", "deep/er/id.txt"])
def test_the_id_file(
    shell: Any, nessie: FakeNessie, database: str, tmp_path: Path, file: str
) -> None:
    """Its folder is made; it holds the id and nothing else; a bare name works, which crashes the original."""
    words = ["--jdbc-url", database, "-u", nessie.uri, "--write-live-set-id-to", file]
    found = RESULT.search(shell("mark-live", *words))
    assert found is not None
    assert (tmp_path / file).read_text() == found[1]
    assert found[1] in shell("show", "--jdbc-url", database, "-L", file)


def test_a_failed_mark_leaves_an_empty_id_file(
    shell: Any, nessie: FakeNessie, database: str, tmp_path: Path
) -> None:
    """Not the id of the mark before it; the set stays with its error."""
    (tmp_path / "id.txt").write_text("0baaa1ff-90db-4ee5-b6d2-b60aea148c76")
    nessie.fail("/trees", status=403, times=100)
    words = ["--jdbc-url", database, "-u", nessie.uri, "--write-live-set-id-to", "id.txt"]
    assert shell("mark-live", *words, status=3) == ""
    assert (tmp_path / "id.txt").read_text() == ""
    assert "IDENTIFY_FAILED" in shell("list", "--jdbc-url", database)
    failed = json.loads(shell("mark-live", *words, "--output", "json", status=3))
    assert failed["status"] == "IDENTIFY_FAILED"
    assert failed["reason"]


def test_an_id_file_that_can_not_be_written_is_known_before_the_walk(
    shell: Any, nessie: FakeNessie, database: str, tmp_path: Path
) -> None:
    """No live set is begun for it."""
    (tmp_path / "file").write_text("")
    words = ["--jdbc-url", database, "-u", nessie.uri, "--write-live-set-id-to", "file/id.txt"]
    shell("mark-live", *words, status=2)
    assert nessie.requests == []
    assert len(shell("list", "--jdbc-url", database).splitlines()) == 2


def test_a_token_is_sent_and_never_shown(shell: Any, nessie: FakeNessie, database: str) -> None:
    """--nessie-option, also where the server refuses it."""
    nessie.token = "quite-a-secret"
    words = ["mark-live", "--jdbc-url", database, "-u", nessie.uri, "-o"]
    auth = "nessie.authentication.type=BEARER,nessie.authentication.token="
    shell(*words, auth + "quite-a-secret")
    shell(*words, auth + "wrong-secret", status=3)
    assert "secret" not in shell.out + shell.err


def test_what_will_never_be_deleted_is_said(shell: Any, nessie: FakeNessie, database: str) -> None:
    """Tables dropped everywhere, and contents of other kinds."""
    nessie.commit("main", {("db", "gone"): table("file:///lake/gone/metadata/1.json")})
    nessie.commit("main", deletes=[("db", "gone")])
    nessie.commit("main", {("db", "delta"): delta_table(["file:///lake/d/_delta_log/1.json"])})
    words = ["--jdbc-url", database, "-u", nessie.uri, "-c", "1"]
    out = shell("mark-live", *words)
    assert "1 tables and views are dropped on every reference" in out
    assert "  db.gone" in out
    assert "DELTA_LAKE_TABLE" in out
    marked = json.loads(shell("mark-live", *words, "--output", "json"))
    assert [table["content_key"] for table in marked["dropped"]] == [["db", "gone"]]
    assert [other["kind"] for other in marked["others"]] == ["DELTA_LAKE_TABLE"]


def test_everything_may_come_from_the_environment(
    shell: Any, nessie: FakeNessie, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But for the marker that a database is meant."""
    monkeypatch.setenv("NESSIE_GC_JDBC_URL", database)
    monkeypatch.setenv("NESSIE_GC_URI", nessie.uri)
    monkeypatch.setenv("NESSIE_GC_CUTOFF", "main=1")
    monkeypatch.setenv("NESSIE_GC_WRITE_LIVE_SET_ID_TO", "id.txt")
    shell("mark-live", "--jdbc")
    assert keys_of(database, (tmp_path / "id.txt").read_text()) == ["2.json"]
