"""`nessie dropped`, and the options by which a mark collects dropped tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.domain.live_sets import LiveSetId, MarkFacts
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene

LONG_AGO = datetime.now(UTC) - timedelta(days=60)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NessieScene]:
    """A catalog with a live table and one that was dropped sixty days ago; no Spark."""
    engine = InProcessEngine()
    monkeypatch.setattr("lakesweep.cli.nessie.context.start_engine", lambda *words: engine)
    with NessieScene(tmp_path, engine=engine) as made:
        made.written_at = made.nessie.state.now = LONG_AGO
        gone = made.table("gone")
        gone.append("b.parquet")
        gone.drop()
        made.table("orders").append("a.parquet")
        yield made


def facts_of(database: str, marked: str) -> MarkFacts:
    with open_live_sets(database) as live_sets:
        facts = live_sets.facts(LiveSetId(json.loads(marked)["live_set_id"]))
    assert facts is not None
    return facts


class TestMark:
    @pytest.fixture
    def words(self, scene: NessieScene, database: str) -> list[str]:
        return ["mark-live", "--jdbc-url", database, "-u", scene.nessie.uri, "-c", "1"]

    def test_nothing_is_collected_unless_it_is_asked_for(
        self, shell: Any, words: list[str], database: str
    ) -> None:
        """The switch is off."""
        facts = facts_of(database, shell(*words, "--output", "json"))
        assert facts.dropped_grace is None
        assert [table.is_collected for table in facts.dropped] == [False]

    @pytest.mark.parametrize(
        ("grace", "days", "is_collected"),
        [([], 30, True), (["--dropped-grace", "90d"], 90, False)],
    )
    def test_the_set_keeps_what_is_collected(
        self,
        shell: Any,
        words: list[str],
        database: str,
        grace: list[str],
        days: int,
        is_collected: bool,
    ) -> None:
        """By the grace of dropped tables, thirty days unless it is given."""
        marked = shell(*words, "--collect-dropped", *grace, "--output", "json")
        facts = facts_of(database, marked)
        assert facts.dropped_grace == timedelta(days=days)
        assert [table.is_collected for table in facts.dropped] == [is_collected]
        assert json.loads(marked)["dropped"][0]["is_collected"] is is_collected

    def test_the_tables_are_named(self, shell: Any, words: list[str]) -> None:
        """Before anything goes, a person reads which."""
        out = shell(*words, "--collect-dropped")
        assert "1 tables and views are dropped on every reference, and a sweep of this set" in out
        assert "  gone\n" in out

    @pytest.mark.parametrize(
        ("flags", "variables", "said"),
        [
            (["--dropped-grace", "60d"], {}, "without --collect-dropped they stay for good"),
            (["--collect-dropped"], {"DROPPED_GRACE": "29d"}, "works on the command line only"),
            ([], {"COLLECT_DROPPED": "true"}, "works on the command line only"),
        ],
        ids=["a-grace-alone", "a-short-grace-as-a-variable", "the-switch-as-a-variable"],
    )
    def test_what_could_be_a_mistake_is_refused(
        self,
        shell: Any,
        words: list[str],
        monkeypatch: pytest.MonkeyPatch,
        flags: list[str],
        variables: dict[str, str],
        said: str,
    ) -> None:
        """Guards are lowered on the command line only."""
        for name, value in variables.items():
            monkeypatch.setenv(f"LAKESWEEP_NESSIE_{name}", value)
        shell(*words, *flags, status=2)
        assert said in shell.err


def test_gc_collects_dropped_tables_in_one_go(shell: Any, scene: NessieScene) -> None:
    """Mark, sweep and second look, with the command line's own options."""
    before = scene.files()
    shell("gc", "--inmemory", "-u", scene.nessie.uri, "-c", "1")
    assert scene.files() == before
    shell("gc", "--inmemory", "-u", scene.nessie.uri, "-c", "1", "--collect-dropped")
    assert scene.files() == {file for file in before if "/orders/" in file}


class TestDropped:
    def test_tables_are_listed_with_size_and_age(self, shell: Any, scene: NessieScene) -> None:
        """As JSON, all of them."""
        before = scene.files()
        words = ["dropped", "-u", scene.nessie.uri, "-c", "1", "--output", "json"]
        listed = json.loads(shell(*words))
        (gone,) = listed["tables"]
        assert gone["content_key"] == ["gone"]
        assert gone["locations"] == [scene.uri("gone")]
        assert gone["files"] == len([file for file in before if "/gone/" in file])
        assert gone["oldest_file"] == gone["newest_file"]
        assert gone["is_collectable"] is True
        assert scene.files() == before

    def test_as_text_it_says_what_stays_and_why(self, shell: Any, scene: NessieScene) -> None:
        """A line of the table, and a reason."""
        out = shell("dropped", "-u", scene.nessie.uri, "-c", "1", "--dropped-grace", "90d")
        assert "1 dropped tables and views with files, 0 that have no files left." in out
        assert f"gone: {scene.uri('gone')}" in out
        assert "It stays: within its grace" in out
