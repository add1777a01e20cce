"""The set-up says what is missing and how to get it, and leaves nothing half-made."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/setup.py at work in a folder of its own."""
    spec = importlib.util.spec_from_file_location("setup_tool", TOOLS / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    venv = tmp_path / ".venv"
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", venv)
    monkeypatch.setattr(module, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(module, "PACKAGES_STAMP", venv / "packages.stamp")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "testing").mkdir()
    (tmp_path / "testing" / "pyproject.toml").write_text("")
    (tmp_path / "constraints.txt").write_text("")
    return module


def make_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def run_setup_sh(folder: Path, path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """tools/setup.sh with a PATH of its own and a setup.py that only says that it was reached."""
    shutil.copy(TOOLS / "setup.sh", folder / "setup.sh")
    (folder / "setup.py").write_text("import sys; print('reached with', sys.executable)")
    for tool in ("sh", "dirname", "cat"):
        found = shutil.which(tool)
        assert found is not None
        path.mkdir(exist_ok=True)
        (path / tool).symlink_to(found)
    return subprocess.run(
        [path / "sh", folder / "setup.sh"],
        env={"PATH": str(path), "HOME": "/nonexistent", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    """An old python3 and a shim that only complains; then one that works."""
    path = tmp_path / "bin"
    make_program(path / "python3", "exit 1")
    make_program(path / "python3.13", "echo 'pyenv: command not found' >&2; exit 127")
    make_program(path / "python3.12", f'exec "{sys.executable}" "$@"')
    done = run_setup_sh(tmp_path, path)
    assert done.returncode == 0, done.stderr
    assert "reached with" in done.stdout


def test_a_python_named_by_the_user_must_work(tmp_path: Path) -> None:
    """It is not silently replaced by another one."""
    wrong = make_program(tmp_path / "wrong", "exit 1")
    done = run_setup_sh(tmp_path, tmp_path / "bin", PYTHON=str(wrong))
    assert done.returncode == 2
    assert f"PYTHON={wrong} is not a working Python 3.11, 3.12 or 3.13" in done.stderr


def test_no_room_is_told_before_anything_is_made(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the numbers."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(setup.shutil, "disk_usage", lambda path: usage(1, 1, 5 << 20))
    assert setup.main() == 2
    assert "has 5 MiB left" in capsys.readouterr().err
    assert not setup.VENV.exists()


def test_a_python_without_venv_says_how_to_get_it(
    setup: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Debian ships that part apart; nothing half-made is left."""
    bare = make_program(tmp_path / "bare", "echo 'ensurepip is not available'; exit 1")
    monkeypatch.setattr(setup.sys, "executable", str(bare))
    assert setup.main() == 2
    said = capsys.readouterr().err
    assert "ensurepip is not available" in said
    assert "python3-venv" in said
    assert not setup.VENV.exists()


def test_a_failed_installation_leaves_no_stamp(
    setup: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next make tries again."""
    make_program(setup.PYTHON, '[ "$1" = -c ]')
    assert setup.main() == 2
    assert "run make again" in capsys.readouterr().err
    assert not setup.PACKAGES_STAMP.exists()
