"""expire, gc and deferred-deletes: what their options ask of a run, and what they say at its end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.domain.live_sets import LiveSetId, MarkFacts, new_live_set_id
from lakesweep.engine.here_first import HereFirst
from lakesweep.engine.late import LateEngine
from lakesweep.errors import LakesweepError, PartlySweptError, UnsafeToSweepError
from lakesweep_testing.fake_nessie import FakeNessie

AT = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def live_set(database: str) -> LiveSetId:
    """A live set that can be swept."""
    live_set_id = new_live_set_id()
    with open_live_sets(database) as live_sets:
        live_sets.start_identify(live_set_id, AT)
        facts = MarkFacts("http://nessie/api/v2", AT, "NONE", (), False, {}, (), ())
        live_sets.finish_identify(live_set_id, AT, facts)
    return live_set_id


@pytest.fixture
def foreign_set(database: str) -> LiveSetId:
    """A live set that can be swept, as nessie-gc leaves it."""
    live_set_id = new_live_set_id()
    with open_live_sets(database) as live_sets:
        live_sets.start_identify(live_set_id, AT)
    with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
        connection.execute("DELETE FROM lakesweep_live_set_facts")
        connection.execute("UPDATE gc_live_sets SET set_status = 'IDENTIFY_SUCCESS'")
    return live_set_id


@pytest.fixture
def nessie() -> Iterator[FakeNessie]:
    with FakeNessie() as server:
        yield server


@pytest.fixture
def words(database: str, live_set: LiveSetId) -> list[str]:
    return ["--jdbc-url", database, "-l", live_set]


@pytest.mark.parametrize("name", ["expire", "sweep"])
def test_defaults(shell: Any, asked: Any, words: list[str], live_set: str, name: str) -> None:
    """Deletes at once, a day of grace, Nessie asked again where the mark found it, our files in the state folder of the user."""
    shell(name, *words)
    request = asked.request
    assert request.live_set_id == live_set
    assert request.defer is False
    assert request.max_file_modification is None
    assert (request.grace, request.least_age) == (None, timedelta(hours=24))
    assert request.keep_all_snapshots is False
    assert request.give_up == frozenset()
    assert request.max_delete_share == 50
    assert request.confirm is None
    assert asked.client.uri == "http://nessie/api/v2"
    assert asked.context.work_location.uri == f"file://{Path.home()}/.local/state/lakesweep/nessie"


def test_every_option_reaches_the_request(shell: Any, asked: Any, words: list[str]) -> None:
    """Nessie-gc's and ours."""
    shell(
        *("expire", *words, "--defer-deletes", "--max-file-modification", "2026-04-01T00:00:00Z"),
        *("--expiry-parallelism", "7", "--expected-file-count", "5", "--fpp", "0.1"),
        *("--allowed-fpp", "0.2", "--keep-all-snapshots", "--grace", "PT1H", "--give-up", "c-1"),
        *("--give-up", "c-2", "--max-delete-share", "10", "--confirm", "p1"),
        *("--work-location", "s3://ours/nessie", "--time-zone", "Asia/Tokyo"),
    )
    request = asked.request
    assert request.defer is True
    assert request.max_file_modification == datetime(2026, 4, 1, tzinfo=UTC)
    assert request.parallelism == 7
    assert request.keep_all_snapshots is True
    assert request.grace == timedelta(hours=1)
    assert request.give_up == {"c-1", "c-2"}
    assert request.max_delete_share == 10
    assert request.confirm == "p1"
    assert asked.context.work_location.uri == "s3://ours/nessie"


def test_file_properties_reach_the_stores(shell: Any, asked: Any, words: list[str]) -> None:
    """Split and repeated; deletes that Iceberg would switch off may still be recorded."""
    shell(
        *("expire", *words, "--defer-deletes", "-I", "s3.access-key-id=k,s3.secret-access-key=sss"),
        *("-I", "s3.endpoint=http://127.0.0.1:9000", "--iceberg=s3.path-style-access=true"),
        *("-I", "s3.delete-enabled=false", "-H", "fs.s3a.endpoint.region=eu-west-1"),
    )
    storage = asked.context.storage
    assert (storage.s3_access_key_id, storage.s3_secret_access_key) == ("k", "sss")
    assert storage.s3_endpoint == "http://127.0.0.1:9000"
    assert storage.s3_path_style is True
    assert storage.s3_region == "eu-west-1"


def test_variables_of_the_sweep(
    shell: Any, asked: Any, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable may raise the grace period; lowering it takes the command line."""
    monkeypatch.setenv("NESSIE_GC_DEFER_DELETES", "true")
    monkeypatch.setenv("NESSIE_GC_MAX_FILE_MODIFICATION", "2026-04-01T00:00:00Z")
    monkeypatch.setenv("NESSIE_GC_ICEBERG", "s3.endpoint=http://minio:9000,client.region=x")
    monkeypatch.setenv("LAKESWEEP_NESSIE_GRACE", "7d")
    monkeypatch.setenv("LAKESWEEP_NESSIE_WORK_LOCATION", "file:///ours")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    shell("expire", *words)
    assert asked.request.defer is True
    assert asked.request.max_file_modification == datetime(2026, 4, 1, tzinfo=UTC)
    assert asked.request.grace == timedelta(days=7)
    assert asked.context.storage.s3_endpoint == "http://minio:9000"
    assert asked.context.work_location.uri == "file:///ours"
    shell("expire", *words, "--defer-deletes")
    assert asked.request.defer is True
    monkeypatch.delenv("LAKESWEEP_NESSIE_WORK_LOCATION")
    shell("expire", *words)
    assert asked.context.work_location.uri == "file:///elsewhere/lakesweep/nessie"
    monkeypatch.setenv("LAKESWEEP_NESSIE_GRACE", "1h")
    shell("expire", *words, status=2)
    assert "lowers a guard" in shell.err


@pytest.mark.parametrize("name", ["expire", "deferred-deletes"])
def test_without_a_named_master_small_work_needs_no_spark(
    shell: Any, asked: Any, words: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named one is meant, and so is a JVM that is there: nobody could tell whether its tasks outlive this process."""
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: False)
    shell(name, *words, "--no-progress")
    assert isinstance(asked.context.engine, HereFirst)
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: True)
    shell(name, *words, "--no-progress")
    assert isinstance(asked.context.engine, LateEngine)
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: False)
    monkeypatch.setattr("lakesweep.cli.nessie.context.start_engine", lambda *how: None)
    monkeypatch.setattr("lakesweep.engine.jvm.jvm_ahead", lambda *how: nullcontext())
    shell(name, *words, "--master", "local[1]", "--no-progress")
    assert isinstance(asked.context.engine, LateEngine)


@pytest.mark.parametrize("name", ["expire", "deferred-deletes"])
class TestShare:
    def test_it_reaches_the_request(
        self, shell: Any, asked: Any, words: list[str], name: str
    ) -> None:
        """With its confirmation."""
        shell(name, *words)
        assert (asked.request.max_delete_share, asked.request.confirm) == (50, None)
        shell(name, *words, "--max-delete-share", "80", "--confirm", "p1")
        assert (asked.request.max_delete_share, asked.request.confirm) == (80, "p1")

    def test_a_variable_may_lower_the_share_and_not_raise_it(
        self, shell: Any, asked: Any, words: list[str], name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More than half goes by a word on the command line."""
        monkeypatch.setenv("LAKESWEEP_NESSIE_MAX_DELETE_SHARE", "20")
        shell(name, *words)
        assert asked.request.max_delete_share == 20
        monkeypatch.setenv("LAKESWEEP_NESSIE_MAX_DELETE_SHARE", "51")
        shell(name, *words, status=2)
        assert "lowers a guard" in shell.err


@pytest.mark.parametrize("name", ["expire", "deferred-deletes"])
class TestAskedAgain:
    def test_where_the_mark_found_it(
        self, shell: Any, asked: Any, words: list[str], name: str
    ) -> None:
        """No --uri is not a reason to leave the second look out."""
        shell(name, *words)
        assert asked.client.uri == "http://nessie/api/v2"

    def test_or_where_a_uri_says(
        self, shell: Any, asked: Any, words: list[str], nessie: FakeNessie, name: str
    ) -> None:
        """A catalog may have moved since, and that is said on the command line."""
        shell(name, *words, "-u", nessie.uri)
        assert asked.client.uri == nessie.uri
        assert asked.request.is_catalog_moved is False
        shell(name, *words, "-u", nessie.uri, "--catalog-moved")
        assert asked.request.is_catalog_moved is True

    def test_or_nowhere_by_a_flag(
        self, shell: Any, asked: Any, words: list[str], name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the command line, whatever the environment says."""
        monkeypatch.setenv("NESSIE_GC_URI", "http://elsewhere/api/v2")
        shell(name, *words, "--no-reverify")
        assert asked.client is None
        shell(name, *words, "--no-reverify", "--uri", "http://nessie/api/v2", status=2)
        assert "Leave one of them out" in shell.err
        monkeypatch.setenv("LAKESWEEP_NESSIE_NO_REVERIFY", "true")
        shell(name, *words, status=2)

    def test_a_set_of_nessie_gc_says_nothing_of_its_catalog(
        self, shell: Any, asked: Any, database: str, foreign_set: LiveSetId, name: str
    ) -> None:
        """So somebody else must."""
        words = ["--jdbc-url", database, "-l", foreign_set]
        shell(name, *words, status=2)
        assert "--uri" in shell.err
        assert "--no-reverify" in shell.err
        assert asked.calls == []
        shell(name, *words, "--no-reverify")
        assert asked.client is None
        shell(name, *words, "--uri", "http://nessie/api/v2")
        assert asked.client.uri == "http://nessie/api/v2"


def test_a_list_is_made_without_nessie(
    shell: Any, asked: Any, database: str, foreign_set: LiveSetId
) -> None:
    """Nothing is deleted by it, so nobody needs to be asked."""
    shell("expire", "--jdbc-url", database, "-l", foreign_set, "--defer-deletes")
    assert asked.client is None


def test_a_time_takes_the_place_of_the_grace_on_the_command_line_only(
    shell: Any, asked: Any, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a variable it would lower a guard from afar."""
    shell("expire", *words, "--max-file-modification", "2026-05-01T00:00:00Z")
    assert asked.request.least_age == timedelta(0)
    shell("expire", *words, "--max-file-modification", "2026-05-01T00:00:00Z", "--grace", "2d")
    assert asked.request.least_age == timedelta(days=2)
    monkeypatch.setenv("NESSIE_GC_MAX_FILE_MODIFICATION", "2026-05-01T00:00:00Z")
    shell("expire", *words)
    assert asked.request.least_age == timedelta(hours=24)


def test_the_sweeps_result(shell: Any, asked: Any, words: list[str], live_set: str) -> None:
    """A record that adds up, and nessie-gc's own line with the duration of the sweep."""
    out = shell("expire", *words)
    assert "listed                     9" in out
    assert out.splitlines()[-1] == (
        f"Nessie-GC sweep phase for live-content-set {live_set} finished with status IDENTIFY_SUCCESS after PT7S, "
        "deleted 3 files, 0 files could not be deleted."
    )
    record = json.loads(shell("expire", *words, "--output", "json"))
    assert record["schema"] == "lakesweep.run/1"
    assert record["mark_id"] == live_set
    assert record["what"] == "nessie"


def test_the_result_of_deferred_deletes(shell: Any, asked: Any, words: list[str]) -> None:
    """Its line, too, is nessie-gc's."""
    out = shell("deferred-deletes", *words, "--give-up", "c-1", "--keep-all-snapshots")
    assert out.splitlines()[-1] == "Deferred deletion finished: 3 files deleted, 0 delete failures."
    assert asked.request.give_up == {"c-1"}
    assert asked.request.keep_all_snapshots is True


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (UnsafeToSweepError("a manifest is missing"), 4, "refused"),
        (PartlySweptError("two are left"), 5, "failed"),
    ],
)
def test_a_run_that_fails_exits_with_its_status(
    shell: Any,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: LakesweepError,
    status: int,
    word: str,
) -> None:
    """And still prints a record as JSON."""

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("lakesweep.collector.nessie.expire.expire", fail)
    record = json.loads(shell("expire", *words, "--output", "json", status=status))
    assert record["status"] == word
    assert record["reason"] == error.message
    assert error.message in shell.err


def test_gc_in_memory(shell: Any, asked: Any, nessie: FakeNessie, tmp_path: Path) -> None:
    """Needs no database, always asks Nessie again, and its work folder is gone; what it collected is remembered."""
    out = shell("gc", "--inmemory", "-u", nessie.uri, "--write-live-set-id-to", "id.txt")
    live_set_id = (tmp_path / "id.txt").read_text()
    assert asked.request.live_set_id == live_set_id
    assert asked.client.uri == nessie.uri
    assert not Path("/" + asked.context.work_location.key).exists()
    assert asked.request.is_in_memory is True
    assert asked.context.collected.uri.endswith("/.local/state/lakesweep/nessie")
    assert "identify phase finished with status IDENTIFY_SUCCESS" in out
    assert f"sweep phase for live-content-set {live_set_id} finished" in out
    record = json.loads(shell("gc", "--inmemory", "-u", nessie.uri, "--output", "json"))
    assert record["schema"] == "lakesweep.run/1"


def test_gc_in_a_database(shell: Any, asked: Any, nessie: FakeNessie, database: str) -> None:
    """The set stays; recording is allowed there."""
    shell("gc", "--jdbc-url", database, "-u", nessie.uri, "--defer-deletes", "-c", "3")
    assert asked.request.defer is True
    assert asked.context.work_location.uri.endswith("/.local/state/lakesweep/nessie")
    assert asked.request.is_in_memory is False
    assert asked.request.live_set_id in shell("list", "--jdbc-url", database)


def test_a_failure_before_the_sweep_prints_a_record_too(
    shell: Any, asked: Any, nessie: FakeNessie
) -> None:
    """A program that reads JSON gets some, whichever step failed."""
    nessie.fail("/trees", status=403, times=100)
    words = ["gc", "--inmemory", "-u", nessie.uri, "--output", "json"]
    record = json.loads(shell(*words, status=3))
    assert (record["status"], record["what"], record["mark_id"]) == ("failed", "nessie", "")
    assert asked.calls == []


def test_a_database_that_is_away_prints_a_record_too(shell: Any) -> None:
    """With the live set that was asked for."""
    away = ["--jdbc-url", "jdbc:postgresql://127.0.0.1:9/x", "-l", str(new_live_set_id())]
    record = json.loads(shell("expire", *away, "--output", "json", status=3))
    assert record["mark_id"] == away[-1]


def test_a_run_has_its_page_where_the_user_wants_it(
    shell: Any, asked: Any, words: list[str], tmp_path: Path
) -> None:
    """And none in a work location in which it has written no record."""
    page, plot = tmp_path / "run.html", tmp_path / "run.svg"
    work = tmp_path / "work"
    shell(
        *("expire", *words, "--report", str(page), "--plot", str(plot)),
        *("--work-location", f"file://{work}"),
    )
    assert "expiry of a Nessie catalog" in page.read_text("utf-8")
    assert "swept to the end" in page.read_text("utf-8")
    assert plot.read_text("utf-8").startswith("<?xml")
    assert not work.exists()
    shell("expire", *words, "--plot", "plot.gif", status=2)
    assert ".svg or .png" in shell.err
