"""Real servers are installed whole or not at all."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from lakesweep_testing.real_parts import FAKE_GCS, MINIO, Part, PartMissingError

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKESWEEP_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def real_parts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)  # restores sys.path, to which the script adds src/
    spec = importlib.util.spec_from_file_location("real_parts_tool", TOOLS / "real_parts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put_part(part: Part, target: Path) -> None:
    for file in part.files:
        (target / file).write_text("program")


def test_a_part_is_renamed_into_place(
    cache: Path, real_parts: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And made once."""
    made: list[str] = []

    def recipe(part: Part, target: Path) -> None:
        made.append(part.name)
        put_part(part, target)

    monkeypatch.setattr(real_parts, "RECIPES", {FAKE_GCS.name: recipe})
    real_parts.install(FAKE_GCS)
    real_parts.install(FAKE_GCS)
    assert made == [FAKE_GCS.name]
    assert FAKE_GCS.file() == cache / "fake-gcs-server-1.56.1" / "fake-gcs-server"
    assert [entry.name for entry in cache.iterdir()] == ["fake-gcs-server-1.56.1"]


def test_a_build_that_fails_leaves_nothing(
    cache: Path, real_parts: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a folder would pass for a whole one."""

    def recipe(part: Part, target: Path) -> None:
        (target / "half").write_text("x")

    monkeypatch.setattr(real_parts, "RECIPES", {MINIO.name: recipe})
    with pytest.raises(real_parts.CannotInstallError, match="left no minio"):
        real_parts.install(MINIO)
    assert list(cache.iterdir()) == []


def test_a_missing_tool_says_how_to_get_it(
    cache: Path, real_parts: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root, too."""
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(
        real_parts.CannotInstallError, match=r"`go` is not on the PATH\. Go 1\.26\.4"
    ):
        real_parts.install(MINIO)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_a_part_that_is_not_there_says_what_to_run() -> None:
    """A test that needs it fails with that sentence."""
    with pytest.raises(PartMissingError, match="make real-parts"):
        MINIO.file()


def test_every_part_has_a_recipe(real_parts: ModuleType) -> None:
    """And a name of its own."""
    names = [part.name for part in real_parts.PARTS]
    assert set(real_parts.RECIPES) == set(names)
    assert len(names) == len(set(names))
