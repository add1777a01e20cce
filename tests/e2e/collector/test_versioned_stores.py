"""Stores that keep what is deleted: a sweep says so, and counts no byte as freed that is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakesweep.collector import finality as asking
from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.record import RunRecord
from lakesweep.report.text import run_text, runs_table
from lakesweep.storage.finality import Finality, Kept
from lakesweep_testing.scene import Scene

SAID = "s3://bucket is versioned"


@pytest.fixture
def swept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[[Finality], RunRecord]:
    """Sweep a mark on a store that answers this; the record as it was written."""

    def run(finality: Finality) -> RunRecord:
        marked = scene.mark()
        monkeypatch.setattr(asking, "how_final_are_deletes", lambda store: finality)
        record = scene.sweep(marked.mark_id)
        assert not scene.left()
        assert load_run(scene.store, scene.name, marked.run_id) == record
        return record

    return run


def _last_column(record: RunRecord) -> str:
    return runs_table([record])[1][-1]


def test_bytes_that_versioning_keeps_are_deleted_and_not_freed(
    swept: Callable[[Finality], RunRecord], scene: Scene
) -> None:
    """With the day on which the store lets them go, where it tells."""
    until = (scene.lake.clock.now + timedelta(days=14)).date().isoformat()
    record = swept(Finality(Kept.KEPT, SAID, 14))
    assert record.objects["deleted"] == len(scene.garbage)
    assert record.bytes["deleted"] > 0
    assert (record.objects["freed"], record.bytes["freed"]) == (0, 0)
    assert record.finality["kept"] == "kept"
    assert record.finality["until"].startswith(until)
    assert f"not freed, kept by the store until {until}: {SAID}" in run_text(record)
    assert _last_column(record) == "0 B"


def test_a_store_that_keeps_for_ever_names_no_day(
    swept: Callable[[Finality], RunRecord],
) -> None:
    """Without a lifecycle rule, old versions stay until somebody removes them."""
    record = swept(Finality(Kept.KEPT, SAID))
    assert record.finality["until"] == ""
    assert f"not freed, kept by the store: {SAID}" in run_text(record)


def test_a_store_that_cannot_be_asked_is_unknown_and_not_freed(
    swept: Callable[[Finality], RunRecord],
) -> None:
    """Nobody knows, so nothing is promised."""
    record = swept(Finality(Kept.UNKNOWN, "denied"))
    assert record.bytes["deleted"] > 0
    assert record.bytes["freed"] == 0
    assert "not known whether freed: denied" in run_text(record)
    assert _last_column(record) == "?"


def test_a_store_without_versions_frees_what_is_deleted(
    swept: Callable[[Finality], RunRecord],
) -> None:
    """Then both counts are the same."""
    record = swept(Finality(Kept.NOT_KEPT, "the store keeps nothing that is deleted"))
    assert record.bytes["freed"] == record.bytes["deleted"] > 0
    assert record.objects["freed"] == record.objects["deleted"]
    assert "and freed" in run_text(record)
