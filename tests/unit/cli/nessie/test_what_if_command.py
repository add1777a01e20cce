"""`nessie what-if`: what a cut-off of any number of days would free, by table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.listing import Piece
from lakesweep.collector.nessie.listing import ListedFolders
from lakesweep.collector.nessie.what_if.saved_answers import answer_file
from lakesweep.domain.location import Location
from lakesweep.domain.what_if import WhatIf
from lakesweep_testing.iceberg_files import write_manifest_list
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_scene import NessieScene

NOW = datetime.now(UTC)
Ask = Callable[..., WhatIf]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NessieScene]:
    """Orders were overwritten 20 and 10 days ago, and a table was dropped 5 days ago; no Spark."""
    engine = InProcessEngine()
    monkeypatch.setattr("lakesweep.cli.nessie.context.start_engine", lambda *words: engine)
    with NessieScene(tmp_path, engine=engine) as made:
        made.written_at = NOW - timedelta(days=60)
        at(made, 30)
        orders = made.table("orders")
        orders.append("a.parquet")
        at(made, 20)
        orders.commit(orders.iceberg.overwrite("b.parquet"))
        at(made, 10)
        orders.commit(orders.iceberg.overwrite("c.parquet"))
        gone = made.table("gone")
        gone.append("old.parquet")
        at(made, 8)
        gone.commit(gone.iceberg.overwrite("new.parquet"))
        at(made, 5)
        gone.drop()
        orders.iceberg.write_orphan("nobody's.parquet")
        yield made


def at(scene: NessieScene, days_ago: float) -> None:
    scene.nessie.now = NOW - timedelta(days=days_ago, hours=-1)


@pytest.fixture
def ask(shell: Any, scene: NessieScene, tmp_path: Path) -> Ask:
    words = ["what-if", "-u", scene.nessie.uri, "--work-location", f"file://{tmp_path}/work"]
    return lambda *more: WhatIf.from_json(shell(*words, *more, "--output", "json"))


def freed(what_if: WhatIf, table: str, days: int) -> int:
    return next(g.curve for g in what_if.groups if g.name == table).at(days).objects


def test_each_day_frees_what_no_commit_since_has(ask: Ask) -> None:
    """A state is kept while the commit that put it is: the first file by 30 days, the second by 20, the third always."""
    answer = ask()
    counts = [freed(answer, "orders", days) for days in (0, 19, 20, 29, 30, 365)]
    assert counts[0] == counts[1] > counts[2] == counts[3] > counts[4] == counts[5] == 0


def test_files_of_a_table_that_a_cutoff_drops_stay(ask: Ask) -> None:
    """A shorter cut-off frees nothing of it, a longer one its older files, and a still longer one keeps those as well."""
    answer = ask()
    counts = [freed(answer, "gone", days) for days in (4, 7, 8, 9, 10)]
    # An overwrite leaves a metadata file, a list and a manifest that no commit ever had.
    assert counts == [0, 0, 7, 7, 3]


def test_what_nothing_refers_to_goes_with_every_cutoff(ask: Ask) -> None:
    """It is no part of the curve: one orphan, and what two overwrites of the live table left."""
    assert ask().unreferenced.objects == 1 + 2 * 3
    assert ask("--grace", "90d").unreferenced.objects == 0


def test_references_with_a_cutoff_of_their_own_keep_it(ask: Ask) -> None:
    """Only the default is varied."""
    answer = ask("--cutoff", "main=NONE")
    assert {point.objects for point in answer.curve.points} == {0}


def test_money_and_tables_are_shown(shell: Any, scene: NessieScene, tmp_path: Path) -> None:
    """As text, for a person."""
    words = ["what-if", "-u", scene.nessie.uri, "--work-location", f"file://{tmp_path}/work"]
    text = shell(*words, "--price", "0.023")
    assert "money a month" in text
    assert "Of it, by table:" in text
    assert "Goes whatever the days, in no content: 7 objects" in text


def test_days_whose_commits_need_a_lost_file_have_no_answer(ask: Ask, scene: NessieScene) -> None:
    """A mark with such a cut-off would refuse; shorter ones are answered all the same."""
    complete = ask()
    lost = scene.tables[0].states[0].metadata_location
    Path(lost.removeprefix("file://")).unlink()
    answer = ask()
    assert "30 days and more there is no answer" in answer.notes[0]
    assert max(point.days for point in answer.curve.points) < 30
    # The lost file itself is freed no more.
    assert answer.freed(9).objects == complete.freed(9).objects - 1


def test_a_dropped_content_that_points_nowhere_stops_no_answer(
    ask: Ask, scene: NessieScene
) -> None:
    """Its name is no file's, so it keeps none; cut-offs that keep the content have no answer."""
    junk = {("junk",): table("string", -1)}
    at(scene, 4)
    scene.nessie.commit("main", puts=junk)
    at(scene, 3)
    scene.nessie.commit("main", deletes=list(junk))
    answer = ask()
    assert "4 days and more there is no answer" in answer.notes[0]
    assert freed(answer, "orders", 3) > 0


def test_a_lost_file_of_a_head_is_refused(shell: Any, scene: NessieScene, tmp_path: Path) -> None:
    """What a live table has is not known then, and no figure would be true."""
    lost = scene.tables[0].states[-1].metadata_location
    Path(lost.removeprefix("file://")).unlink()
    words = ["what-if", "-u", scene.nessie.uri, "--work-location", f"file://{tmp_path}/work"]
    shell(*words, status=4)
    assert lost in shell.err


def test_nothing_but_the_answer_is_stored(ask: Ask, scene: NessieScene, tmp_path: Path) -> None:
    """No live set, no listing, and Nessie is only asked; with --no-save nothing at all."""
    before, heads = scene.files(), scene.nessie.heads()

    def own_files() -> list[str]:
        return [path.name for path in (tmp_path / "work").rglob("*") if path.is_file()]

    assert json.dumps(ask("--no-save").as_json())
    assert own_files() == []
    ask()
    assert own_files() == [answer_file(scene.nessie.uri)]
    assert scene.files() == before
    assert scene.nessie.heads() == heads


def test_the_page_of_the_last_run_shows_the_answer(
    ask: Ask, shell: Any, scene: NessieScene, tmp_path: Path
) -> None:
    """A run does not know it: its page says how to ask, and shows the curve once that was done; later pages do at once."""
    sets = f"sqlite:///{tmp_path}/sets.db"
    shell("create-sql-schema", "--jdbc-url", sets)
    place = ("--work-location", f"file://{tmp_path}/work")

    def run(status: int = 0) -> str:
        words = ("-u", scene.nessie.uri, "--jdbc-url", sets, *place, "--defer-deletes")
        shell("gc", *words, status=status)
        pages = sorted((tmp_path / "work").rglob("report.html"), key=lambda p: p.stat().st_mtime)
        return pages[-1].read_text("utf-8")

    page = run()
    assert "This has not been asked yet" in page
    assert f"lakesweep nessie what-if --uri {scene.nessie.uri}" in page
    ask("--no-save")
    (file,) = (tmp_path / "work").rglob("report.html")
    assert file.read_text("utf-8") == page
    ask()
    assert "What would be freed against days kept" in file.read_text("utf-8")
    assert "What would be freed against days kept" in run()


def test_below_a_table_the_answer_is_not_kept(shell: Any, scene: NessieScene) -> None:
    """A listing of the table would find it there, and take it for garbage."""
    before = scene.files()
    place = f"{scene.tables[0].iceberg.location}/own"
    words = ["what-if", "-u", scene.nessie.uri, "--work-location", place, "--output", "json"]
    answer = WhatIf.from_json(shell(*words))
    assert "not kept for reports: --work-location" in answer.notes[-1]
    assert scene.files() == before


def test_days_whose_manifest_list_was_cut_short_have_no_answer(
    ask: Ask, scene: NessieScene
) -> None:
    """A list that ends early looks whole; its snapshot's summary tells how many files it should name."""
    state = scene.tables[0].states[0]
    assert state.manifest_list is not None
    scene.write(state.manifest_list, write_manifest_list([]))
    answer = ask()
    assert "30 days and more there is no answer" in answer.notes[0]
    assert "the snapshot's summary promises 1" in answer.notes[0]
    assert max(point.days for point in answer.curve.points) < 30


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each folder is listed."""
    counted: Counter[str] = Counter()
    pages = ListedFolders.pages

    def spy(self: ListedFolders, pieces: Sequence[Piece[Location]]) -> Iterator[pa.RecordBatch]:
        counted.update(f"{piece.folder.uri} {piece.recursive}" for piece in pieces)
        return pages(self, pieces)

    monkeypatch.setattr(ListedFolders, "pages", spy)
    return counted


def test_the_lake_is_listed_once(ask: Ask, listings: Counter[str]) -> None:
    """Tables that the catalog knows, live or dropped, are no reason to list again."""
    ask()
    assert set(listings.values()) == {1}


def test_files_of_a_table_that_nobody_knows_stay(
    ask: Ask, scene: NessieScene, listings: Counter[str]
) -> None:
    """Only the listing shows it, and then the files that came before it are judged again."""
    expected = ask().unreferenced.objects
    listings.clear()
    for name in ("data/part.parquet", "metadata/v1.metadata.json"):
        scene.write(f"{scene.tables[0].iceberg.location}/foreign/{name}", b"foreign")
    answer = ask()
    assert answer.unreferenced.objects == expected
    assert answer.kept["protected"].objects == 2
    assert set(listings.values()) == {2}
