"""The documentation keeps up with the program: nothing undocumented, nothing made up, no link into the void."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from lakesweep import errors
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.record import COUNTERS
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.settings.lakefs_options import SETTINGS
from lakesweep.settings.spark_properties import read_properties

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


@pytest.fixture(scope="module")
def make_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_program_says(make_docs: ModuleType) -> None:
    """A command, an option or a setting that changed makes this fail until `make docs` is run."""
    for path, text in make_docs.pages().items():
        is_same = path.exists() and path.read_text("utf-8") == text
        assert is_same, f"{path.relative_to(ROOT)} is out of date: run `make docs`"


def test_every_setting_says_what_it_means() -> None:
    """A sentence, not a repetition of the name."""
    assert [s.name for s in SETTINGS if len(s.help) < 10 or not s.help.endswith((".", ")"))] == []


def test_every_documented_lakefs_property_is_known() -> None:
    """What the pages tell users to set is not refused as unknown."""
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"spark\.hadoop\.lakefs\.[a-z_.]*[a-z]", page.read_text("utf-8")))
    assert named
    read_properties(dict.fromkeys(named, "1"))


def test_commands_in_the_pages_exist(make_docs: ModuleType) -> None:
    """`lakesweep nonsense` in an example would be found by the first reader."""
    import typer

    from lakesweep.cli.main import app

    known = {name for name, _ in make_docs.commands(typer.main.get_command(app), "lakesweep")}
    unknown = []
    for page in PAGES:
        for block in re.findall(
            r"^```(?:sh|console)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S
        ):
            for line in re.findall(r"^(?:\$ )?(?:\.venv/bin/)?(lakesweep [a-z-]+)", block, re.M):
                if line not in known:
                    unknown.append(f"{page.relative_to(ROOT)}: {line}")
    assert unknown == []


def test_links_lead_somewhere() -> None:
    """Every relative link names a file, and its anchor a heading."""
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_page_can_be_found() -> None:
    """All pages under docs/ are linked from its index."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index.md" and f"({page})" not in index] == []


def test_exit_statuses_are_documented() -> None:
    """Each status that an error of ours has is in the table."""
    page = (ROOT / "docs" / "reference" / "exit-statuses.md").read_text("utf-8")
    statuses = {getattr(errors, name).exit_status for name in errors.__all__}
    assert [status for status in statuses if f"| {status} |" not in page] == []


def test_make_targets_in_the_pages_exist() -> None:
    """`make nonsense` likewise."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    listed = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.M))
    assert named <= targets
    assert listed == targets


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/collect.md"])
def test_promises_name_the_window_in_which_they_do_not_hold(page: str) -> None:
    """Data that comes back to life between a reading and its deletes can be lost, and a user is told for how long."""
    text = (ROOT / page).read_text("utf-8").replace("*", "")
    for window in (SAFETY_FULL.delete_not_after, SAFETY_FULL.longest_not_after):
        assert re.search(rf"\b{window.total_seconds() / 60:.0f}\b", text), f"{window} in {page}"
    assert "can be lost" in text
    if page.startswith("docs"):
        assert f"{SAFETY_FULL.longest_request.total_seconds() / 60:.0f} minutes more" in text


def test_every_word_of_a_record_is_explained() -> None:
    """Counters and statuses stand in the glossary or on the page of monitoring, and phases stand on that page."""
    monitoring = (ROOT / "docs/how-to/monitor.md").read_text("utf-8")
    glossary = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Words")[2]
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    phases = set(re.findall(r'\bphase\("([^"]+)"\)', source))
    assert len(phases) > 15
    assert {phase for phase in phases if f"`{phase}`" not in monitoring} == set()
    explained = (glossary + monitoring).lower()
    assert [name for name in COUNTERS if name not in explained] == []
    flows = {flow.value for flow in Flow} - {"auto"}
    assert [flow for flow in flows if f"{flow} run" not in glossary] == []
