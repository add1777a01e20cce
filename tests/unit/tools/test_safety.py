"""`make safety` writes what its parts found, each with its time, and ends badly when anything was lost."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
FAULTS = [
    {
        "injections": 5,
        "right": 3,
        "errors": 1,
        "unseen": 1,
        "losses": 0,
        "wrong": [],
        "seconds": 1.5,
    }
]
KILLS = [{"kills": 4, "survived": 4, "wrong": [], "seconds": 2.0}]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/safety.py as a module that writes into a folder of the test's own."""
    spec = importlib.util.spec_from_file_location("safety_tool", ROOT / "tools" / "safety.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def finds(monkeypatch: pytest.MonkeyPatch, tool: ModuleType, status: int = 0, **found: Any) -> None:
    """Let the commands of parts write these results instead of running for hours."""

    def run(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        name = "faults" if "lakesweep_testing.fault_search" in command else "kills"
        Path(command[command.index("--json") + 1]).write_text(json.dumps(found[name]))
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(tool.subprocess, "run", run)


def test_a_part_alone_is_refreshed(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others keep what they found before, and their time."""
    finds(monkeypatch, tool, faults=FAULTS, kills=KILLS)
    assert tool.main(["--only", "kills"]) == 0
    first = json.loads((tmp_path / "safety.json").read_text())["kills"]
    assert tool.main(["--only", "faults", "--seed", "7"]) == 0
    results = json.loads((tmp_path / "safety.json").read_text())
    assert results["kills"] == first
    assert results["faults"]["seed"] == 7
    page = (tmp_path / "safety.md").read_text()
    assert "| crashes survived | 4 of 4, in 1 kinds of runs |" in page
    assert "| faults injected | 5 in 1 kinds of runs: 3 ended right, 1 with a clear error" in page
    assert "| mutations caught | not measured yet |" in page
    assert "**Bytes lost: 0.**" in page


def test_a_loss_ends_badly(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on the page, and in the exit status."""
    lost = [{**KILLS[0], "survived": 3, "wrong": ["killed after write 2: a live file is gone"]}]
    finds(monkeypatch, tool, kills=lost)
    assert tool.main(["--only", "kills"]) == 1
    assert "**Bytes lost: more than 0: 1 cases.**" in (tmp_path / "safety.md").read_text()


def test_a_part_that_broke_off_is_no_result(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written for it."""
    monkeypatch.setattr(
        tool.subprocess, "run", lambda command, **how: subprocess.CompletedProcess(command, 3)
    )
    with pytest.raises(SystemExit, match="ended with 3 and wrote no result"):
        tool.main(["--only", "kills"])
    assert not (tmp_path / "safety.json").exists()


def test_programs_that_lose_by_design_are_no_proof(tool: ModuleType) -> None:
    """Their schedules are not counted among those that lost nothing, and it is told whether the search found their losses."""
    common = {"crashes": 1, "losses": 0, "leaks": 0, "seconds": 1.0}
    rows = [
        {
            **common,
            "loses_by_design": False,
            "schedules": 900,
            "known_losses": 0,
            "is_complete": True,
        },
        {
            **common,
            "loses_by_design": False,
            "schedules": 100,
            "known_losses": 0,
            "is_complete": False,
        },
        {
            **common,
            "loses_by_design": True,
            "schedules": 500,
            "known_losses": 7,
            "is_complete": False,
        },
    ]
    said = tool._said("schedules", tool.PARTS["schedules"].numbers(rows))
    assert said.startswith(
        "1,000 of 2 programs, with 2 crashes: 0 losses, 0 leaks; 1 programs to the end."
    )
    assert said.endswith("Of 1 that lose data by design, 1 did")


def test_mistakes_of_others_have_tests_here(tool: ModuleType) -> None:
    """Only what a test shows is told."""
    assert len(tool.read_mistakes()) >= 10
