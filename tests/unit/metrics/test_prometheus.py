"""The metrics file is what Prometheus reads, whatever happened and whatever a repository is called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakesweep.metrics.outcome import RunOutcome
from lakesweep.metrics.prometheus import prometheus_text, write_metrics_file
from lakesweep.metrics.publish import publish_outcome
from lakesweep.metrics.values import METRICS, run_samples
from lakesweep.secrets import known_secrets

MakeOutcome = Callable[..., RunOutcome]
SUCCESS = "lakesweep_last_success_timestamp_seconds"


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Values by metric and the labels that are not the run's own."""
    return {
        (
            family.name,
            *(v for k, v in s.labels.items() if k not in ("catalog", "repository", "command")),
        ): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_all_that_is_known_of_a_run_is_told(make_outcome: MakeOutcome) -> None:
    """By the parser of Prometheus itself."""
    found = parsed(prometheus_text(run_samples(make_outcome(exit_status=5, kind="keys-failed"))))
    ended = make_outcome().finished_at.timestamp()
    assert found[("lakesweep_last_run_timestamp_seconds",)] == ended
    assert found[("lakesweep_last_run_duration_seconds",)] == 10
    assert found[("lakesweep_last_run_exit_status",)] == 5
    assert found[("lakesweep_last_run_status", "swept")] == 1
    assert found[("lakesweep_last_run_status", "refused")] == 0
    assert found[("lakesweep_last_run_error", "keys-failed")] == 1
    assert found[("lakesweep_objects", "listed")] == 100
    assert found[("lakesweep_object_bytes", "garbage")] == 420
    assert found[("lakesweep_deletes", "deleted")] == 40
    assert found[("lakesweep_deletes", "failed")] == 2
    assert found[("lakesweep_delete_bytes", "deleted")] == 400
    assert found[("lakesweep_oldest_garbage_age_seconds",)] == 40 * 86400
    assert found[("lakesweep_requests_retried",)] == 5
    assert found[("lakesweep_requests_throttled",)] == 3
    assert found[("lakesweep_phase_duration_seconds", "delete")] == 1.5
    assert found[("lakesweep_phase_items", "delete")] == 40
    assert found[("lakesweep_phase_bytes", "list")] == 1000
    assert (SUCCESS,) not in found
    assert ("lakesweep_objects", "deleted") not in found


def test_every_metric_is_exported_by_some_run(make_outcome: MakeOutcome) -> None:
    """None stands in the table for nothing."""
    good, bad = make_outcome(), make_outcome(exit_status=1, kind="bug")
    told = {sample.metric.name for run in (good, bad) for sample in run_samples(run)}
    assert told == {metric.name for metric in METRICS}


def test_labels_are_escaped(make_outcome: MakeOutcome) -> None:
    """A repository's name comes from outside."""
    name = 'a"} 1\nevil{x="\\'
    text = prometheus_text(run_samples(make_outcome(repository=name)))
    names = {
        s.labels["repository"] for f in text_string_to_metric_families(text) for s in f.samples
    }
    assert names == {name}


def test_a_run_that_has_no_record_says_what_it_can(make_outcome: MakeOutcome) -> None:
    """One that was refused before it began."""
    outcome = make_outcome(record=None, phases=(), exit_status=3, kind="catalog-unreachable")
    found = parsed(prometheus_text(run_samples(outcome)))
    assert found[("lakesweep_last_run_error", "catalog-unreachable")] == 1
    assert not any(name in ("lakesweep_objects", "lakesweep_last_run_status") for name, *_ in found)


def test_a_failed_run_keeps_the_time_of_the_last_good_one(
    make_outcome: MakeOutcome, tmp_path: Path
) -> None:
    """Otherwise nobody could tell for how long none was good."""
    path = tmp_path / "lakesweep.prom"
    good = make_outcome()
    write_metrics_file(path, run_samples(good))
    later = good.finished_at + timedelta(days=3)
    for _ in range(2):
        bad = make_outcome(finished_at=later, exit_status=4, kind="clock-skew", repository="")
        write_metrics_file(path, run_samples(bad))
    found = parsed(path.read_text())
    assert found[(SUCCESS,)] == good.finished_at.timestamp()
    assert found[("lakesweep_last_run_timestamp_seconds",)] == later.timestamp()
    write_metrics_file(path, run_samples(make_outcome(finished_at=later)))
    assert parsed(path.read_text())[(SUCCESS,)] == later.timestamp()
    assert path.read_text().count(f"\n{SUCCESS}{{") == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("before", [b"\xff\xfe", b"half a li", f"{SUCCESS}{{}} x\n".encode()])
def test_a_damaged_file_is_replaced(
    make_outcome: MakeOutcome, tmp_path: Path, before: bytes
) -> None:
    """What can't be read is not carried on."""
    path = tmp_path / "lakesweep.prom"
    path.write_bytes(before)
    write_metrics_file(path, run_samples(make_outcome(exit_status=1, kind="bug")))
    assert (SUCCESS,) not in parsed(path.read_text())


def test_a_file_that_fails_half_way_leaves_the_old_one(
    make_outcome: MakeOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no draft, and no error for the run."""
    path = tmp_path / "lakesweep.prom"
    path.write_text("old")

    def full(self: Path, text: str, encoding: str) -> int:
        self.touch()
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    publish_outcome(make_outcome(), path, {})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_a_warning(
    make_outcome: MakeOutcome, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the way out."""
    publish_outcome(make_outcome(), tmp_path / "none" / "x.prom", {})
    assert "was not written" in caplog.text


def test_secrets_are_masked(make_outcome: MakeOutcome) -> None:
    """A catalog's address may hold one."""
    known_secrets.remember(["hunter2-secret"])
    text = prometheus_text(run_samples(make_outcome(repository="https://u:hunter2-secret@x")))
    assert "hunter2-secret" not in text
