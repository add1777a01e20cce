"""The packed environment holds what is pinned, finds itself wherever it lies, and is not written where it does not."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packed_env", TOOLS / "packed_env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spark_stays_with_the_cluster(tool: ModuleType) -> None:
    """All that lakesweep and its extras need, and what those need; Spark's half of a gigabyte is there already."""
    names = {package.name.lower() for package in tool.needed_packages("lakesweep", ["spark"])}
    assert {"lakesweep", "pyarrow", "numpy", "botocore", "jmespath", "pandas"} <= names
    assert not names & {"pyspark", "py4j", "pytest", "fastapi"}


def test_another_version_than_the_pinned_is_refused(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs on executors is what was tested."""
    monkeypatch.setattr(tool, "_pins", lambda: {"numpy": "0.1"})
    with pytest.raises(tool.CannotPackError, match=r"numpy is .* and constraints.txt says 0\.1"):
        tool.needed_packages("lakesweep", [])


@pytest.mark.slow
def test_the_packed_python_uses_nothing_of_this_machine_s(tool: ModuleType, tmp_path: Path) -> None:
    """Unpacked elsewhere, it has its own library and packages, and loads no file of the Python that it was made from."""
    folder = tmp_path / "environment"
    tool.fill(folder, [])
    elsewhere = tmp_path / "moved by others"
    folder.rename(elsewhere)
    script = (
        "import sys, os, ssl, sqlite3, ctypes, lakesweep.errors;"
        "print(sys.prefix, os.__file__, lakesweep.errors.__file__, *sys.path, sep='\\n');"
        "print(open('/proc/self/maps').read())"
    )
    done = subprocess.run(
        [elsewhere / "bin" / "python", "-c", script],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sys.base_prefix not in done.stdout
    assert str(elsewhere) in done.stdout.splitlines()[0]


def test_a_python_that_can_not_be_moved_is_no_archive(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried before it is packed, and what lay there before stays."""
    archive = tmp_path / "environment.tar.gz"
    archive.write_bytes(b"the last one")

    def fill(folder: Path, packages: object) -> None:
        (folder / "bin").mkdir()
        (folder / "bin" / "python").write_text("#!/bin/sh\necho no such library >&2; exit 1\n")
        (folder / "bin" / "python").chmod(0o755)

    monkeypatch.setattr(tool, "needed_packages", lambda *_: [])
    monkeypatch.setattr(tool, "fill", fill)
    with pytest.raises(tool.CannotPackError, match=r"no such library.*Nothing was written"):
        tool.pack(archive, [], 0)
    assert archive.read_bytes() == b"the last one"
    assert list(tmp_path.iterdir()) == [archive]


def test_spark_unpacks_programs_from_one_kind_of_archive(tool: ModuleType, tmp_path: Path) -> None:
    """Out of a .tar or a .zip, Spark makes files that nobody may run."""
    with pytest.raises(tool.CannotPackError, match=r"\.tar\.gz"):
        tool.pack(tmp_path / "environment.tar", [], 0)


def test_whoever_unpacks_it_owns_it(tool: ModuleType) -> None:
    """Names of this machine's users are nobody's business."""
    entry = tool._of_nobody(tarfile.TarInfo("x"))
    assert (entry.uid, entry.gid, entry.uname, entry.gname) == (0, 0, "", "")
