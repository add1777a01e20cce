"""Every run leaves its metrics, good or bad, and says the kind of its error where scripts look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

import lakesweep
from lakesweep.errors import ConfigError
from lakesweep_testing.commands import Repository, Shell
from lakesweep_testing.inprocess import InProcessEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeRepository = Callable[[str], Repository]
RUN = ("catalog", "repository", "command")
SUCCESS = ("lakesweep_last_success_timestamp_seconds",)


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lakesweep.cli.running.start_engine", lambda *how: InProcessEngine())
    monkeypatch.setattr("lakesweep.progress.earlier_runs.cache_folder", lambda env: tmp_path)


def metrics(file: Path, repository: str, command: str) -> dict[tuple[str, ...], float]:
    """The values of one repository and command, by metric and further labels."""
    wanted = ("lakefs", repository, command)
    return {
        (family.name, *(v for k, v in sample.labels.items() if k not in RUN)): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
        if tuple(sample.labels[name] for name in RUN) == wanted
    }


def test_good_runs_refused_runs_and_runs_that_never_began(
    shell: Shell,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time of the last good run outlives the bad ones."""
    make_repository("watched")
    file = tmp_path / "lakesweep.prom"
    monkeypatch.setenv("LAKESWEEP_METRICS_FILE", str(file))
    shell.run("gc", "lakefs://watched")
    good = metrics(file, "watched", "gc")
    assert good[("lakesweep_last_run_exit_status",)] == 0
    assert good[("lakesweep_deletes", "deleted")] == good[("lakesweep_objects", "garbage")] == 2
    assert good[("lakesweep_last_run_status", "swept")] == 1
    assert good[("lakesweep_phase_items", "delete")] == 2
    assert good[("lakesweep_phase_bytes", "delete")] == good[("lakesweep_delete_bytes", "deleted")]
    assert good[("lakesweep_oldest_garbage_age_seconds",)] == pytest.approx(3 * 86400, abs=600)
    assert not any(name == "lakesweep_last_run_error" for name, *_ in good)

    refused = shell.json("gc", "watched", "--min-age", "1s", status=2)
    assert refused["kind"] == "min-age-too-low"
    assert shell.err.splitlines()[-1] == "lakesweep: kind of error: min-age-too-low"
    bad = metrics(file, "watched", "gc")
    assert bad[("lakesweep_last_run_error", "min-age-too-low")] == 1
    assert bad[("lakesweep_last_run_exit_status",)] == 2
    assert bad[SUCCESS] == good[SUCCESS]

    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "another")
    shell.run("mark", "watched", "--metrics-file", str(file), status=3)
    denied = metrics(file, "watched", "mark")
    assert denied[("lakesweep_last_run_error", "catalog-denied")] == 1
    assert metrics(file, "watched", "gc")[SUCCESS] == good[SUCCESS]


def test_a_run_that_is_interrupted_says_so(
    shell: Shell,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With status 130, in its metrics and in the record that it prints."""
    make_repository("stopped")
    file = tmp_path / "stopped.prom"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lakesweep.collector.lakefs.mark.fix_cutoff", stop)
    record = shell.json("mark", "stopped", "--metrics-file", str(file), status=130)
    assert (record["status"], record["reason"]) == ("failed", "stopped by the user")
    assert record["kind"] == "interrupted"
    found = metrics(file, "stopped", "mark")
    assert found[("lakesweep_last_run_exit_status",)] == 130
    assert found[("lakesweep_last_run_error", "interrupted")] == 1


def test_the_second_run_knows_how_long_the_first_took(
    shell: Shell, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where time left is told by."""
    from lakesweep.progress import displays

    seen: list[dict[str, float]] = []
    known = displays.earlier_seconds

    def asked(run: str) -> dict[str, float]:
        seen.append(known(run))
        return seen[-1]

    monkeypatch.setattr(displays, "earlier_seconds", asked)
    make_repository("again")
    for _ in range(2):
        shell.run("mark", "again")
    assert seen[0] == {}
    assert {"list", "judge", "plan"} <= set(seen[1])


@pytest.mark.usefixtures("environment")
def test_runs_from_python_are_told_of_too(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an option of the same name, good or bad."""
    make_repository("from-python")
    monkeypatch.setattr("lakesweep.engine.session.session_properties", lambda spark: {})
    monkeypatch.setattr("lakesweep.engine.spark.SparkEngine", lambda *how: InProcessEngine())
    file, session = tmp_path / "python.prom", cast("SparkSession", None)
    marked = lakesweep.mark(session, "from-python", metrics_file=str(file))
    good = metrics(file, "from-python", "mark")
    assert good[("lakesweep_objects", "garbage")] == marked.objects["garbage"] == 2
    with pytest.raises(ConfigError):
        lakesweep.sweep(session, "from-python", "none-such", metrics_file=str(file))
    bad = metrics(file, "from-python", "sweep")
    assert bad[("lakesweep_last_run_error", "no-mark")] == 1
    assert metrics(file, "from-python", "mark")[SUCCESS] == good[SUCCESS]
