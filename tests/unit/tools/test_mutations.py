"""Every listed mistake still fits the source, and the tool tells a caught one from one that nobody noticed."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/mutations.py as a module."""
    spec = importlib.util.spec_from_file_location("mutations_tool", ROOT / "tools" / "mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def test_every_listed_mistake_fits_the_source(tool: ModuleType) -> None:
    """A text that is gone, or a test that was renamed, would let `make mutations` try nothing."""
    mistakes = tool.read_mistakes(ROOT)
    stale = [f"{m.list_name}: {m.name}: {c}" for m in mistakes for c in m.complaints(ROOT)]
    assert stale == []


def test_no_two_mistakes_share_a_name(tool: ModuleType) -> None:
    """A name chooses one mistake."""
    names = [m.name for m in tool.read_mistakes(ROOT)]
    assert sorted(set(names)) == sorted(names)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source of one function, one test that looks at it, and one that does not."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "ages.py").write_text("def is_old(age):\n    return age > 3\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tests" / "mutations").mkdir(parents=True)
    (tmp_path / "tests" / "test_ages.py").write_text(
        "from ages import is_old\n\n\n"
        "def test_edge():\n    assert not is_old(3)\n\n\n"
        "def test_nothing():\n    assert is_old(5)\n\n\n"
        "def test_failing():\n    assert is_old(1)\n"
    )
    return tmp_path


def list_mistake(tree: Path, find: str, replace: str, test: str) -> None:
    (tree / "tests" / "mutations" / "ages.toml").write_text(
        f"[[mistake]]\nname = 'three counts as old'\nfile = 'src/ages.py'\nfind = '''{find}'''\n"
        f"replace = '''{replace}'''\ntests = ['tests/test_ages.py::{test}']\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("find", "replace", "test", "status", "said"),
    [
        ("age > 3", "age >= 3", "test_edge", 0, "caught"),
        ("age > 3", "age >= 3", "test_nothing", 1, "SURVIVED"),
        ("age > 4", "age >= 4", "test_edge", 1, "STALE"),
        ("age", "years", "test_edge", 1, "STALE"),
        ("age > 3", "age > 3", "test_edge", 1, "STALE"),
        ("age > 3", "age >= 3", "test_renamed", 1, "STALE"),
        ("age > 3", "age >", "test_edge", 1, "BROKEN"),
        ("def is_old", "def is_new", "test_edge", 1, "BROKEN"),
        ("age > 3", "age >= 3", "test_failing", 1, "BROKEN"),
    ],
)
def test_only_a_failed_test_counts_as_noticed(
    tool: ModuleType,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    find: str,
    replace: str,
    test: str,
    status: int,
    said: str,
) -> None:
    """Passing tests, a text that is not there once, and a source that can't be imported are all failures of the list."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of a start
    list_mistake(tree, find, replace, test)
    assert tool.main([], tree) == status
    assert said in capsys.readouterr().out
    assert (tree / "src" / "ages.py").read_text() == "def is_old(age):\n    return age > 3\n"


@pytest.mark.slow
def test_a_caught_mistake_is_tried_again_only_when_something_of_it_changed(
    tool: ModuleType,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page and the numbers tell of kept outcomes too; two at once each have a copy."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    list_mistake(tree, "age > 3", "age >= 3", "test_edge")
    ages = tree / "tests" / "mutations" / "ages.toml"
    (ages.parent / "newer.toml").write_text(
        ages.read_text().replace("three counts", "nothing counts").replace(">= 3", "> 9 | 9")
    )
    page, numbers = tree / "page.md", tree / "numbers.json"
    options = ["--jobs", "2", "--only-changed", "--page", str(page), "--json", str(numbers)]

    assert tool.main(options, tree) == 1  # test_edge passes with `age > 9 | 9`
    assert json.loads(numbers.read_text()).items() >= {"entries": 2, "caught": 1}.items()
    assert "| three counts as old | `src/ages.py` | `tests/test_ages.py::test_edge` |" in (
        page.read_text()
    )
    assert "| nothing counts as old | `src/ages.py` | **SURVIVED** |" in page.read_text()
    capsys.readouterr()

    monkeypatch.setattr(tool, "try_all", None)
    assert tool.main(["--kept", "--page", str(page), "--json", str(numbers)], tree) == 1
    assert "| nothing counts as old | `src/ages.py` | `tests/test_ages.py::test_edge` † |" in (
        page.read_text()
    )
    assert json.loads(numbers.read_text())["not_tried"] == 1
    monkeypatch.undo()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    capsys.readouterr()

    (ages.parent / "newer.toml").write_text("")
    monkeypatch.setattr(tool, "try_mistake", None)  # calling it would fail
    assert tool.main(options, tree) == 0
    assert capsys.readouterr().out == "1 mistakes: 1 caught (1 of them before), 0 not\n"
    numbers_now = json.loads(numbers.read_text())
    assert numbers_now.pop("seconds") > 0
    assert numbers_now == {"entries": 1, "caught": 1, "survived": 0, "not_tried": 0}

    for changed in ("src/ages.py", "tests/test_ages.py"):
        right = (tree / changed).read_text()
        (tree / changed).write_text(f"{right}# changed\n")
        with pytest.raises(TypeError):
            tool.main(options, tree)
        (tree / changed).write_text(right)
    assert tool.main(options, tree) == 0


def test_what_nobody_noticed_is_tried_again(tool: ModuleType, tree: Path) -> None:
    """Only what was caught is kept: a survivor may be noticed by a test whose helper was mended."""
    list_mistake(tree, "age > 3", "age >= 3", "test_nothing")
    (mistake,) = tool.read_mistakes(tree)
    kept = tool.KeptOutcomes(tree)
    for verdict in (tool.SURVIVED, tool.STALE, tool.BROKEN):
        kept.keep(tool.Outcome(mistake, verdict, "", "", 0.1), mistake.key(tree))
        assert kept.caught([mistake]) == {}
    (tree / tool.KEPT_OUTCOMES).write_text('\n{"key": "a line that was cut')
    caught = tool.Outcome(mistake, tool.CAUGHT, "", "tests/test_ages.py::test_nothing", 0.1)
    kept.keep(caught, mistake.key(tree))
    assert list(kept.caught([mistake])) == [mistake]


def test_names_of_failed_tests_come_from_the_summary(tool: ModuleType) -> None:
    """A line of a log begins like one of the summary."""
    said = (
        "ERROR    lakesweep.logs:logs.py:3 went wrong\n"
        "=== short test summary info ===\n"
        "FAILED tests/test_a.py::test_b[two words] - AssertionError\n"
        "ERROR tests/test_c.py\n"
    )
    assert tool._failed_in(said) == ["tests/test_a.py::test_b[two words]", "tests/test_c.py"]


def test_mistakes_are_chosen_by_list_and_by_words(
    tool: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that fits nothing is no success."""
    list_mistake(tree, "age > 3", "age >= 3", "test_edge")
    assert tool.main(["--list", "ages"], tree) == 0
    assert tool.main(["--list", "counts as"], tree) == 0
    assert capsys.readouterr().out == "ages: three counts as old\n" * 2
    assert tool.main(["lakefs"], tree) == 2
