"""Every kind of error that the code raises has a cause and a cure on the page, and no other kind stands there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def error_kinds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("error_kinds", ROOT / "tools/error_kinds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_kind_that_is_raised_is_in_the_table(error_kinds: ModuleType) -> None:
    """Add it to docs/reference/errors.toml, with its cause and what to do, and run `make docs`."""
    listed = {kind for group in error_kinds.table().values() for kind in group}
    assert sorted(set(error_kinds.raised_kinds()) - listed) == []


def test_no_kind_in_the_table_is_raised_by_nobody(error_kinds: ModuleType) -> None:
    """A kind that went from the code goes from the page."""
    listed = {kind for group in error_kinds.table().values() for kind in group}
    assert sorted(listed - set(error_kinds.raised_kinds())) == []


def test_causes_and_cures_are_sentences_and_each_kind_stands_once(error_kinds: ModuleType) -> None:
    """In one of the groups that the page has."""
    table = error_kinds.table()
    assert set(table) == set(error_kinds.GROUPS)
    kinds = [kind for group in table.values() for kind in group]
    assert len(kinds) == len(set(kinds))
    for kind, said in (item for group in table.values() for item in group.items()):
        assert len(said) == 2, kind
        assert all(text.endswith(".") for text in said), kind


def test_kinds_are_found_in_the_ways_that_code_gives_them(
    error_kinds: ModuleType, tmp_path: Path
) -> None:
    """As text, as a constant, by a choice, by a function that makes the error; not in calls of other things."""
    (tmp_path / "code.py").write_text(
        "class AnError(Exception):\n    exit_status = 3\n    default_kind = 'plain'\n"
        "class NearError(AnError):\n    pass\n"
        "GIVEN = 'constant'\n"
        "def made(*, kind) -> NearError: ...\n"
        "raise AnError('x', kind='text')\n"
        "raise NearError('x', kind=GIVEN if True else 'other')\n"
        "raise made(kind='by-a-function')\n"
        "raise AnError('x', kind=f'http-{404}')\n"
        "raise AnError('x', kind=error.kind)\n"
        "sort(kind='stable')\n"
    )
    expected = ["plain", "text", "constant", "other", "by-a-function", "http-…"]
    assert error_kinds.raised_kinds(tmp_path) == {kind: {3} for kind in expected}
