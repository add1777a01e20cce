"""The site: its menu has every page of the index, and a broken link ends the build."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "tools" / "make_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path)
    monkeypatch.setattr(module, "SOURCE", tmp_path / "site-source")
    return module


@pytest.mark.slow
def test_the_site_is_built_and_asks_nobody_for_anything(
    make_site: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every page of the index is in the menu; no script, style or picture comes from elsewhere; drawings are described in words."""
    assert make_site.main() == 0, capsys.readouterr().err
    page = (tmp_path / "site" / "docs" / "tutorial.html").read_text("utf-8")
    assert "The safety rules, drawn" in page
    drawings = re.findall(
        "<img [^>]*>", (tmp_path / "site/docs/explanation/safety-rules.html").read_text()
    )
    assert len(drawings) == 3
    assert all(re.search('alt="[^"]{20,}"', drawing) for drawing in drawings), (
        "for who can't see it"
    )
    for tag in ('<script src="http', 'rel="stylesheet" href="http', '<img src="http'):
        assert tag not in page


@pytest.mark.search
@pytest.mark.slow
def test_a_link_into_the_void_ends_the_build(
    make_site: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said with the page and the link."""
    menu = make_site.menu

    def with_a_broken_page() -> list[dict[str, object]]:
        (make_site.SOURCE / "README.md").write_text("[nowhere](docs/nowhere.md)\n", "utf-8")
        return menu()

    monkeypatch.setattr(make_site, "menu", with_a_broken_page)
    assert make_site.main() != 0
    assert "docs/nowhere.md" in capsys.readouterr().err
