"""Where costly things are kept: in the user's cache, or in a folder that is as much the user's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numba
import pytest

from lakesweep.cachefolder import cache_folder, home_folder
from lakesweep.errors import ConfigError
from lakesweep.formats import jit
from lakesweep.settings.load import load_settings


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """An environment whose home can't be written to, whoever runs the tests; files go to `tmp` beside it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    home, access = tmp_path / "home", os.access
    home.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != home and access(path, mode))
    return {"HOME": str(home)}


def test_the_cache_is_where_the_user_s_caches_are(tmp_path: Path) -> None:
    """Named, shared, or in the home; it need not be there yet."""
    home = {"HOME": str(tmp_path)}
    assert cache_folder(home) == tmp_path / ".cache/lakesweep"
    assert cache_folder(home | {"XDG_CACHE_HOME": str(tmp_path / "x")}) == tmp_path / "x/lakesweep"
    assert cache_folder(home | {"LAKESWEEP_CACHE": "/not/there"}) == Path("/not/there")


def test_a_home_that_can_not_be_written_has_a_folder_among_the_temporary_files(
    read_only: Mapping[str, str], tmp_path: Path
) -> None:
    """systemd's ProtectSystem, a container's read-only root: it is made for this user alone."""
    folder = cache_folder(read_only)
    assert folder == tmp_path / "tmp" / f"lakesweep-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache_folder(read_only) == folder


@pytest.mark.parametrize("how", ["open to others", "a link"])
def test_a_folder_that_may_be_somebody_else_s_is_left_alone(
    how: str, read_only: Mapping[str, str], tmp_path: Path
) -> None:
    """Programs are started from there."""
    folder = tmp_path / "tmp" / f"lakesweep-{os.getuid()}"
    if how == "a link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert cache_folder(read_only) == Path(read_only["HOME"]) / ".cache/lakesweep"


def test_a_user_without_a_home_is_no_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that runs under a number which no list of users has, and no HOME."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert home_folder({}) == Path("/nonexistent")
    assert cache_folder({}).name.startswith("lakesweep")
    assert load_settings({}, env={}).warnings == ()


def test_compiled_code_that_can_not_be_kept_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """numba itself would end every command with its own words."""

    def refuse(**_: Any) -> Any:
        raise RuntimeError("cannot cache function 'f': no locator available")

    monkeypatch.setattr(numba, "njit", refuse)
    with pytest.raises(ConfigError, match="Set LAKESWEEP_CACHE") as caught:
        jit.jitted(len)
    assert caught.value.kind == "no-cache-folder"
