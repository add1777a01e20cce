"""`nessie explain` as a command: its arguments, its options, and both outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NessieScene]:
    """A catalog with one table; no Spark."""
    engine = InProcessEngine()
    monkeypatch.setattr("lakesweep.cli.nessie.context.start_engine", lambda *words: engine)
    with NessieScene(tmp_path, engine=engine) as made:
        made.table("orders").append("a.parquet")
        yield made


def test_files_come_before_options(shell: Any, scene: NessieScene, database: str) -> None:
    """Several files, the rules of sweeps, and a database whose lists are looked at."""
    files = [scene.uri(f"orders/data/{name}.parquet") for name in ("a", "b")]
    scene.write(files[1], b"orphan")
    words = [
        "explain",
        *files,
        "-u",
        scene.nessie.uri,
        "--jdbc-url",
        database,
        "--cutoff",
        "main=1",
    ]
    text = shell(*words)
    assert f"{files[0]}: LIVE" in text
    assert f"{files[1]}: GARBAGE" in text
    document = json.loads(shell(*words, "--output", "json"))
    assert [file["said"] for file in document["files"]] == ["live", "garbage"]
    assert document["files"][0]["holders"][0]["policy"] == "1 commits"


def test_nothing_asked_is_wrong_use(shell: Any, scene: NessieScene) -> None:
    """A command line without a file says what is missing."""
    shell("explain", "-u", scene.nessie.uri, status=2)
    assert "Which file?" in shell.err
