"""Only libraries that the machine lacks are fetched beside a package."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

DEPENDS = """\
mariadb-server-core
  Depends: mariadb-common
 |Depends: libaio1
  Depends: <libaio1t64>
  Depends: libc6
  PreDepends: libzstd1
  Suggests: libjemalloc2
  Depends: liburing2
"""


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("debian_packages")


def test_missing_libraries(debian: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed ones, suggestions and other kinds of packages are left out."""
    monkeypatch.setattr(debian, "_is_installed", lambda name: name == "libc6")
    assert debian.missing_libraries(DEPENDS) == ["libaio1", "liburing2"]


def test_a_machine_without_apt_is_told_what_is_missing(
    debian: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is tried half-way."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Exception, match="Debian or Ubuntu"):
        debian.unpack_packages(("mariadb-server-core",), tmp_path / "target")
    assert list(tmp_path.iterdir()) == []
