"""An expiry tells how far it is and how it ended, as a collection of a repository does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakesweep.progress import PhaseProgress, PhaseSnapshot
from lakesweep_testing.commands import Shell
from lakesweep_testing.nessie_scene import NessieScene


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, PhaseSnapshot]:
    """The last snapshot of each phase before its real numbers were known."""
    seen: dict[str, PhaseSnapshot] = {}
    end = PhaseProgress.end

    def ending(phase: PhaseProgress, items: int, size_bytes: int) -> None:
        seen[phase.name] = phase.snapshot()
        end(phase, items, size_bytes)

    monkeypatch.setattr(PhaseProgress, "end", ending)
    return seen


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Small work is done in this process, whatever other tests have started."""
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "NESSIE_", "AWS_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setattr("lakesweep.progress.earlier_runs.cache_folder", lambda env: tmp_path)
    monkeypatch.setattr("lakesweep.engine.pyspark_internals.has_gateway", lambda: False)
    return Shell(capsys)


def metrics(file: Path) -> dict[tuple[str, ...], float]:
    """Values by metric and the labels that are not the run's own; all of them are of a Nessie catalog."""
    found = {}
    for family in text_string_to_metric_families(file.read_text()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("catalog") == "nessie"
            assert labels.pop("repository").startswith("http://")
            found[(family.name, labels.pop("command"), *labels.values())] = sample.value
    return found


def test_files_and_bytes_are_told_while_it_runs_and_when_it_has_ended(
    scene: NessieScene, shell: Shell, told: dict[str, PhaseSnapshot], tmp_path: Path
) -> None:
    """Tasks tell what their phases find; the metrics have the record's numbers; a bad run keeps the good one's time."""
    orders = scene.table("orders")
    orders.append("a.parquet", "b.parquet")
    orders.iceberg.write_orphan("never-committed.parquet")
    file = tmp_path / "nessie.prom"
    words = ("nessie", "gc", "--inmemory", "-u", scene.nessie.uri, "--metrics-file", str(file))
    record = shell.json(*words)
    assert record["objects"]["deleted"] == 1
    listed = record["objects"]["listed"], record["bytes"]["listed"]
    assert (told["list"].items, told["list"].size_bytes) == listed
    assert (told["delete"].items, told["delete"].total) == (1, 1)
    good = metrics(file)
    assert good[("lakesweep_deletes", "gc", "deleted")] == 1
    assert good[("lakesweep_objects", "gc", "listed")] == record["objects"]["listed"]
    assert good[("lakesweep_oldest_garbage_age_seconds", "gc")] > 24 * 3600
    success = ("lakesweep_last_success_timestamp_seconds", "gc")

    Path(orders.states[-1].metadata_location.removeprefix("file://")).unlink()
    shell.run(*words, status=4)
    assert shell.err.splitlines()[-1] == "lakesweep: kind of error: unreadable"
    bad = metrics(file)
    assert bad[("lakesweep_last_run_error", "gc", "unreadable")] == 1
    assert bad[success] == good[success]
