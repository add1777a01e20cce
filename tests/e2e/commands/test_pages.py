"""Every run leaves a page beside its record; options and commands write it, and plots, where a user wants them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast
from xml.etree import ElementTree

import pytest

import lakesweep
from lakesweep.cli import running
from lakesweep.collector import garbage_sums
from lakesweep.report.html import page as pages
from lakesweep_testing.commands import Repository, Shell
from lakesweep_testing.inprocess import InProcessEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeRepository = Callable[[str], Repository]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run their tasks in this process."""
    monkeypatch.setattr(running, "jvm_started", lambda spark: nullcontext())
    monkeypatch.setattr(running, "start_engine", lambda settings, phases=None: InProcessEngine())


def run_folder(repo: Repository, run_id: str) -> Path:
    return repo.folder / "_lakefs/retention/gc/lakesweep/runs" / run_id


def test_a_mark_and_its_sweep_leave_pages(
    shell: Shell, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """The page follows the run: marked, dry, swept. Files of the user's own have the same."""
    repo = make_repository("pages")
    html, plot = tmp_path / "run.html", tmp_path / "run.svg"
    marked = shell.json("mark", "pages", "--report", str(html), "--plot", str(plot))
    folder = run_folder(repo, marked["run_id"])
    page = (folder / "report.html").read_text("utf-8")
    assert html.read_text("utf-8") == page
    assert "marked; nothing was deleted" in page
    assert repo.expired in page
    assert repo.unreferenced in page
    assert "lakesweep what-if pages" in page
    drawn = ElementTree.fromstring(plot.read_text("utf-8"))
    assert "Garbage by folder" in "".join(drawn.itertext())

    sums = json.loads((folder / "summary.json").read_text("utf-8"))
    assert sums["garbage"]["total"] == [2, marked["bytes"]["garbage"]]
    assert {name: count for name, (count, _) in sums["garbage"]["reasons"].items()} == {
        "expired": 1,
        "unreferenced": 1,
    }
    assert sum(r + e for _, r, e in sums["commits"]["months"]) == (
        marked["retained_commits"] + marked["expired_commits"]
    )

    mark_id = ("--mark-id", marked["mark_id"])
    shell.json("sweep", "pages", *mark_id, "--dry-run")
    assert "dry run; marked" in (folder / "report.html").read_text("utf-8")
    shell.json("sweep", "pages", *mark_id)
    assert "swept to the end" in (folder / "report.html").read_text("utf-8")

    again = shell.run("runs", "report", "pages", marked["run_id"])
    assert again.strip() == (folder / "report.html").read_text("utf-8").strip()
    shell.run(
        "runs", "report", "pages", marked["run_id"], "--report", str(html), "--plot", str(plot)
    )
    assert "swept to the end" in html.read_text("utf-8")

    nothing = shell.run("gc", "pages", "--dry-run")
    assert "note: dry run: nothing would be deleted" in nothing
    listed = tmp_path / "runs.html"
    shell.run("runs", "list", "pages", "--html", str(listed))
    text = listed.read_text("utf-8")
    assert marked["run_id"] in text
    assert "Bytes, run by run" in text


def test_a_refused_run_has_a_page_where_the_user_wants_it(
    shell: Shell, make_repository: MakeRepository, tmp_path: Path
) -> None:
    """It has no record, and so no page of its own."""
    make_repository("refused-pages")
    shell.run("mark", "refused-pages", "--mark-id", "m1")
    html = tmp_path / "refused.html"
    shell.run("mark", "refused-pages", "--mark-id", "m1", "--report", str(html), status=2)
    text = html.read_text("utf-8")
    assert "refused; nothing was deleted" in text
    assert "is in use" in text


def test_a_page_that_can_not_be_made_fails_no_run(
    shell: Shell,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums, page, report and plot fail one after another; the run deletes what it should and says what is missing."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no paper")

    repo = make_repository("no-paper")
    monkeypatch.setattr(garbage_sums, "sum_rows", broken)
    monkeypatch.setattr(pages, "run_view", broken)
    html, plot = tmp_path / "run.html", tmp_path / "run.svg"
    plot.mkdir()
    swept = shell.json("gc", "no-paper", "--report", str(html), "--plot", str(plot))
    assert (swept["status"], swept["objects"]["deleted"]) == ("swept", 2)
    assert not repo.has(repo.expired)
    said = re.sub(r"\s+", " ", shell.err)
    assert "could not be summed up for the report" in said
    assert f"The page of run {swept['run_id']} was not written" in said
    assert said.count("A page or plot is missing") == 2
    assert not html.exists()
    assert not (run_folder(repo, swept["run_id"]) / "summary.json").exists()


def test_runs_from_python_leave_pages(
    make_repository: MakeRepository, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of commands do."""
    repo = make_repository("from-python")
    monkeypatch.setattr("lakesweep.engine.session.session_properties", lambda spark: {})
    monkeypatch.setattr("lakesweep.engine.spark.SparkEngine", lambda *_: InProcessEngine())
    spark = cast("SparkSession", None)
    marked = lakesweep.mark(spark, "from-python")
    page = run_folder(repo, marked.run_id) / "report.html"
    assert "marked; nothing was deleted" in page.read_text("utf-8")
    swept = lakesweep.sweep(spark, "from-python", marked.mark_id)
    assert swept.run_id == marked.run_id
    assert "swept to the end" in page.read_text("utf-8")


def test_a_png_is_drawn_where_its_extra_is_installed(
    shell: Shell,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elsewhere it is refused before the run, with the command that installs it."""
    make_repository("drawn")
    plot = tmp_path / "run.PNG"
    shell.run("mark", "drawn", "--plot", str(plot))
    assert plot.read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    shell.run("mark", "drawn", "--plot", str(plot), status=2)
    assert "pip install 'lakesweep[png]'" in shell.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--plot", "x.pdf"), ".svg or .png"),
        (("--report", "no/such/folder/x.html"), "there is no folder"),
    ],
    ids=["kind", "folder"],
)
def test_files_that_can_not_be_written_are_refused_before_the_run(
    shell: Shell, make_repository: MakeRepository, flags: tuple[str, str], said: str
) -> None:
    """Nobody wants to learn that after an hour."""
    shell.run("mark", "any-repository", *flags, status=2)
    assert said in shell.err
    assert "Nothing was touched" in shell.err
