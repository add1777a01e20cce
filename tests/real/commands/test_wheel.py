"""The wheel, installed in an empty environment: it has all it needs, and nothing of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from lakesweep_testing.real_parts import LAKEFS

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    # Built from a copy: building leaves folders beside what is built.
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, source], check=True)
    (made,) = folder.glob("lakesweep-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and its extras only."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    words = ["--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    # What this process finds by PYTHONPATH would count as installed there.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    wanted = f"{wheel}[spark,java,lake]"
    subprocess.run([programs / "pip", "install", *words, wanted], check=True, env=env)
    return programs


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    """Templates and settings are shipped; what only tests need is not."""
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "lakesweep").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == files


def test_the_demo_runs_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    """The whole story, with no checkout in sight."""
    done = subprocess.run(
        [environment / "lakesweep", "demo"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        "470 reads of live objects, on every branch and at every commit: all answered"
        in done.stdout
    )


def test_lakectl_finds_its_plugin(environment: Path, tmp_path: Path) -> None:
    """`lakectl sweep …` is `lakesweep …`, with its exit status."""
    lakectl = str(LAKEFS.file("lakectl"))
    env = {"PATH": f"{environment}:/usr/bin:/bin", "HOME": str(tmp_path)}
    shown = subprocess.run([lakectl, "sweep", "version"], env=env, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("lakesweep ")
    wrong = subprocess.run([lakectl, "sweep", "nonsense"], env=env, capture_output=True, text=True)
    assert wrong.returncode == 2
