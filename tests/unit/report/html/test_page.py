"""The page of a run: every number adds up, no name of the lake is more than text, and it asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from lakesweep.collector.record import BACKUP, RunRecord, RunStatus
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import WhatIf
from lakesweep.report.html.limits import MOST_BYTES
from lakesweep.report.html.page import history_page, run_page
from lakesweep.secrets import known_secrets
from lakesweep_testing.sample_runs import (
    AT,
    LONG,
    hostile,
    sample_record,
    sample_summary,
    sample_what_if,
)

pytestmark = pytest.mark.slow

EMPTY_TAGS = {"meta", "br"}


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page: its tags, its visible text, and its tables."""

    html: str
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)
    text: str = ""
    tables: list[list[list[str]]] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.close()
        assert self.open_tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag not in EMPTY_TAGS:
            self.open_tags.append(tag)
        if tag == "table":
            self.tables.append([])
            self.captions.append("")
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag == "data":
            # The exact number, in place of the rounded one that people read.
            self.tables[-1][-1][-1] = found["value"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open_tags:
            return
        self.text += data
        if "caption" in self.open_tags:
            self.captions[-1] += data
        elif self.open_tags and "data" not in self.open_tags and {"th", "td"} & set(self.open_tags):
            self.tables[-1][-1][-1] += data

    def table(self, caption: str) -> list[list[str]]:
        """The rows under this caption, without their heading."""
        return next(t for t, c in zip(self.tables, self.captions, strict=True) if caption in c)[1:]

    def ids(self) -> list[str]:
        return [found["id"] for _, found in self.tags if "id" in found]


@pytest.fixture
def marked() -> RunRecord:
    return sample_record()


@pytest.fixture
def summary() -> RunSummary:
    return sample_summary()


@pytest.fixture
def what_if() -> WhatIf:
    return sample_what_if()


def assert_adds_up(rows: list[list[str]]) -> None:
    """The first row is the sum of the others, in objects and in exact bytes."""
    whole, *parts = rows
    for column in (1, 2):
        numbers = [int(row[column].replace(",", "")) for row in (whole, *parts)]
        assert numbers[0] == sum(numbers[1:]), rows


def test_every_number_adds_up(marked: RunRecord, summary: RunSummary) -> None:
    """Listed by verdict, garbage by reason, folder, age, size and outcome."""
    swept = replace(marked, status=RunStatus.SWEPT).tallied(
        {"deleted": Tally(95, 850), "already_gone": Tally(2, 20), "revived": Tally(3, 30)}
    )
    page = Page(run_page(swept, summary))
    tables = ("Everything that was listed", "why nothing needs it", "what became of it")
    more = ("Folders that make up", "time since it was written", "by the size", "by why")
    for caption in (*tables, *more):
        assert_adds_up(page.table(caption))
    assert page.table("Everything")[0][0] == "listed"
    assert page.table("Everything")[0][1:3] == ["1,200", "5000"]


def test_numbers_that_need_not_add_up_say_so(marked: RunRecord) -> None:
    """An optimized run lists only some slices."""
    optimized = replace(marked, flow="optimized").tallied({"listed": Tally(3, 3)})
    assert "need not make up the whole" in run_page(optimized)
    assert "need not make up the whole" not in run_page(marked)


def test_a_mark_says_what_was_found_and_how_to_go_on(
    marked: RunRecord, summary: RunSummary, what_if: WhatIf
) -> None:
    """All sections, the hundred largest, when the young are collectable, and the commands."""
    page = Page(run_page(marked, summary, what_if))
    for words in (
        *("marked; nothing was deleted", "1 day", "Steps against time", "Commits"),
        "collectable from 2026-05-02T12:02:00Z",
        "lakesweep sweep example-repo --mark-id may --dry-run",
        "lakesweep runs forget example-repo g123",
        "lakesweep backup example-repo --mark-id may --to BACKUP_URI",
        "Protected: foreign file",
        "The curve in numbers",
        "3 commits in all: 1 retained, 2 expired",
    ):
        assert words in page.text, words
    assert "1 days" not in page.text
    assert len(page.table("The largest garbage objects")) == 100
    drawings = [found for tag, found in page.tags if tag == "svg" and found.get("role") == "img"]
    assert len(drawings) == 4


def test_without_a_what_if_the_command_that_makes_one_is_there(marked: RunRecord) -> None:
    """A page need not be complete to be useful."""
    assert "lakesweep what-if example-repo" in Page(run_page(marked)).text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"status": RunStatus.MARKED, "notes": ("dry run: 100 would be deleted",)}, "dry run;"),
        ({"status": RunStatus.REFUSED, "reason": "too much"}, "--confirm p1"),
        ({"status": RunStatus.REFUSED, "plan_id": "", "reason": "doubt"}, "lakesweep mark"),
        ({"status": RunStatus.FAILED, "reason": "store gone"}, "Try the sweep again"),
        ({"status": RunStatus.PARTLY_SWEPT}, "lakesweep runs resume example-repo g123"),
        ({"status": RunStatus.SWEPT}, "swept to the end"),
        ({"status": RunStatus.NOTHING_TO_DO}, "nothing to do"),
        ({"status": RunStatus.BACKED_UP, "flow": BACKUP}, "backed up"),
        ({"min_age_lowered": True}, "--unsafe-min-age example-repo"),
    ],
    ids=str,
)
def test_every_kind_of_run_has_its_page(
    marked: RunRecord, changed: dict[str, object], words: str
) -> None:
    """A dry run, one that was refused, one that failed, one that was swept in part."""
    record = replace(marked, **changed)  # type: ignore[arg-type]
    page = Page(run_page(record))
    assert words in page.text
    assert record.reason in page.text


def test_a_run_that_never_began_has_a_page() -> None:
    """It has a reason, and nothing else."""
    record = RunRecord("r", "", "", "all", "", RunStatus.REFUSED, AT, reason="wrong settings")
    assert "wrong settings" in Page(run_page(record)).text


def test_what_was_not_reached_is_counted(marked: RunRecord) -> None:
    """A sweep that stopped half-way still adds up."""
    partly = replace(marked, status=RunStatus.PARTLY_SWEPT)
    partly = partly.tallied({"deleted": Tally(30, 300), "failed": Tally(1, 1)})
    rows = Page(run_page(partly)).table("what became of it")
    assert_adds_up(rows)
    assert rows[2][1:3] == ["69", "599"]


def test_an_expiry_of_a_nessie_catalog_has_its_page(marked: RunRecord, summary: RunSummary) -> None:
    """Its own words and commands, and no graph of commits."""
    record = replace(
        marked,
        what="nessie",
        flow="deferred",
        mark_id="0b1c",
        run_id="0b1c",
        rules={"main": "P10D", "default": "NONE"},
    ).tallied({"undecided": Tally(), "listed": Tally(1_197, 4_997)})
    page = Page(run_page(record, replace(summary, commits=None)))
    assert "recorded for a later delete" in page.text
    assert "lakesweep nessie deferred-deletes --live-set-id 0b1c" in page.text
    assert "main = P10D" in page.text
    assert "collectable by a new mark from 2026-05-02T12:02:00Z" in page.text
    assert "commits" not in page.ids()
    assert_adds_up(page.table("Everything that was listed"))


def test_names_of_the_lake_are_text_and_nothing_else(
    marked: RunRecord, summary: RunSummary
) -> None:
    """No tag, no attribute and no template comes out of a name; what can't be seen is written as its code."""
    html = run_page(*hostile(marked, summary))
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "iframe", "object", "a b"})
    assert not [name for _, found in page.tags for name in found if name.startswith("on")]
    assert "<script" not in html
    assert "{{7*7}}" in page.text
    assert "49" not in re.findall(r"alert\(1\).{0,60}", page.text)[0]
    assert "\\u202egpj\\u2066\\ud800" in page.text
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html
    )
    assert html.encode()


@pytest.mark.parametrize(
    "name", [LONG, "&" * 1024, "\x01" * 1024, "日" * 341], ids=["long", "amp", "codes", "wide"]
)
def test_a_page_stays_under_a_megabyte(marked: RunRecord, summary: RunSummary, name: str) -> None:
    """Whatever the names, and however many."""
    record, sums = hostile(marked, summary, name)
    assert len(run_page(record, sums).encode()) < MOST_BYTES
    small = replace(record, protected={}, revived=(), notes=(), rules={}, failures={}, phases=())
    runs = [replace(small, run_id=f"{n}{name}") for n in range(80)]
    assert len(history_page(name, runs, [(name, name)] * 100).encode()) < MOST_BYTES


def test_a_page_asks_nobody_for_anything(
    marked: RunRecord, summary: RunSummary, what_if: WhatIf
) -> None:
    """No address but those in texts, no script, and a policy that allows its own style by its digest alone."""
    html = run_page(marked, summary, what_if)
    page = Page(html)
    for tag, found in page.tags:
        assert tag not in {"script", "link", "img", "iframe", "form", "object", "embed", "base"}
        assert "style" not in found, "the policy would not let it in"
        assert found.get("href", "#").startswith("#")
        assert not {"src", "srcset", "action", "xlink:href", "background"} & found.keys()
    policy = next(
        f["content"] for t, f in page.tags if f.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert not re.search(r"url\(|@import|https?:", style)


def test_a_page_can_be_read_aloud_and_walked_by_keys(
    marked: RunRecord, summary: RunSummary, what_if: WhatIf
) -> None:
    """One first heading, headings in order, landmarks, captions, and a name for every drawing."""
    page = Page(run_page(marked, summary, what_if))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == tags.count("nav") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert all(page.captions)
    ids = page.ids()
    assert len(ids) == len(set(ids))
    for tag, found in page.tags:
        if tag == "svg":
            assert found.get("aria-hidden") == "true" or found["aria-labelledby"]
        if tag == "th":
            assert found["scope"] in ("row", "col")
        for target in (*found.get("aria-labelledby", "").split(), *_anchor(found)):
            assert target in ids
    assert ("html", {"lang": "en"}) in page.tags


def _anchor(found: dict[str, str]) -> Iterator[str]:
    if found.get("href"):
        yield found["href"].removeprefix("#")


def test_secrets_are_masked(marked: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's message may quote what we sent."""
    known_secrets.remember(["s3cr3t-of-the-page"])
    html = run_page(replace(marked, reason="no s3cr3t-of-the-page", notes=("s3cr3t-of-the-page",)))
    assert "s3cr3t-of-the-page" not in html


def test_the_history_has_a_line_for_each_run_and_trends(marked: RunRecord) -> None:
    """Objects and bytes of live, garbage and deleted, and the duration; damaged runs are named."""
    runs = [replace(marked, run_id=f"g{n}", started_at=AT - timedelta(days=n)) for n in range(5)]
    page = Page(history_page("example-repo", runs, [("gx", "it left no record")]))
    assert [row[0] for row in page.table("Runs, the newest first")] == [f"g{n}" for n in range(5)]
    titles = ("Bytes, run by run", "Objects, run by run", "Duration, run by run")
    assert [title for title in titles if title not in page.text] == []
    assert "it left no record" in page.text
    assert "5 runs" in page.text


def test_a_history_of_one_run_has_no_trend(marked: RunRecord) -> None:
    """A line needs two points."""
    assert "run by run" not in Page(history_page("r", [marked])).text
    assert Page(history_page("r", [])).text
