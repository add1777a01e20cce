"""The record of a run on a live set reads well, and its numbers add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.report.accounts import DEFERRED_DELETES
from lakesweep.report.nessie_runs import nessie_run_text

AT = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
RECORD = RunRecord(
    repository="http://nessie/api/v2",
    run_id="0baaa1ff",
    mark_id="0baaa1ff",
    what="nessie",
    flow="immediate",
    status=RunStatus.SWEPT,
    started_at=AT,
    finished_at=AT,
    cutoff=AT,
    rules={"main": "10", "default": "NONE"},
    protected={"of a content of another kind": ["s3://lake/d/1"]},
    notes=("not re-verified",),
).counted(
    {
        **{"listed": 100, "live": 60, "young": 5, "protected": 5, "garbage": 30},
        **{"deleted": 20, "already_gone": 4, "revived": 3, "failed": 1},
    },
    {"listed": 1024, "garbage": 300, "deleted": 200},
)


def test_a_sweep() -> None:
    """What was listed, what became of the garbage; parts that nobody counted are told too."""
    text = nessie_run_text(RECORD)
    assert "catalog     http://nessie/api/v2" in text
    assert "policy      main = 10" in text
    assert "cut-off     2026-05-01T12:00:00Z; files modified since are kept" in text
    counts = {
        line[:16].strip("├└ "): int(line[16:28].replace(",", ""))
        for line in text.splitlines()
        if line[16:28].strip().replace(",", "").isdigit()
    }
    assert counts["listed"] == sum(counts[n] for n in ("live", "young", "protected", "garbage"))
    parts = ("deleted", "already gone", "revived", "kept", "failed")
    assert counts["garbage"] == sum(counts[name] for name in parts)
    assert counts["kept"] == 2
    assert text.endswith("note: not re-verified")


def test_recorded_files_are_not_told_as_deleted() -> None:
    """A sweep that deferred its deletes deleted nothing."""
    deferred = replace(RECORD, status=RunStatus.MARKED).counted({"deleted": 0}, {})
    text = nessie_run_text(deferred)
    assert "nothing was deleted" in text
    assert "what became of it" not in text


def test_deferred_deletes_list_nothing() -> None:
    """Their files were listed when they were recorded."""
    sizeless = RECORD.counted({}, {"garbage": 0, "deleted": 0})
    text = nessie_run_text(replace(sizeless, flow=DEFERRED_DELETES))
    assert "in the base locations" not in text
    assert "what became of it" in text
    assert "0 B" not in text


def test_a_refused_run_says_why() -> None:
    """With the plan that could be confirmed."""
    refused = replace(RECORD, status=RunStatus.REFUSED, reason="too much", plan_id="p1")
    text = nessie_run_text(refused)
    assert "status      refused; nothing was deleted" in text
    assert "reason      too much" in text
    assert "plan        p1" in text
