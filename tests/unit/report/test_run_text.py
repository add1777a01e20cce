"""A run record reads well: every number in its place, nothing that is not there, and what to do next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakesweep.collector.record import BACKUP, Phase, RunRecord, RunStatus
from lakesweep.report.text import run_text, runs_table

AT = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def marked() -> RunRecord:
    return RunRecord(
        repository="example-repo",
        run_id="g123",
        mark_id="may",
        plan_id="p1",
        what="all",
        flow="clean",
        status=RunStatus.MARKED,
        started_at=AT,
        finished_at=AT,
        cutoff=AT,
        rules={
            "default_retention_days": 14,
            "branches": [{"branch_id": "main", "retention_days": 21}],
        },
        retained_commits=3,
        expired_commits=2,
        mark="s3://lake/example-repo/_lakefs/retention/gc/addresses/mark_id=may/",
        phases=(Phase("list", 1.0, 1200),),
        protected={"foreign file at the root of the namespace": [f"f{n}" for n in range(7)]},
        notes=("everything was listed (a clean run), because no earlier run was swept to its end",),
    ).counted(
        {
            "listed": 1200,
            "live": 1100,
            "protected": 7,
            "garbage": 93,
            "expired": 90,
            "unreferenced": 3,
        },
        {"listed": 5 << 30, "live": 4 << 30, "garbage": 1 << 30, "expired": 1 << 30},
    )


def test_a_mark_says_what_is_garbage_and_how_to_sweep_it(marked: RunRecord) -> None:
    """The tree sums to what was listed; parts of nothing are left out; the command that goes on is there."""
    text = run_text(marked)
    lines = {line.split("  ")[0].strip("├└ "): line for line in text.splitlines() if line.strip()}
    assert lines["listed"].split()[1:4] == ["1,200", "5.0", "GiB"]
    assert lines["garbage"].split()[1] == "93"
    assert "young" not in lines
    assert "retention   14 days, main 21 days" in text
    assert "cut-off     2026-05-01T12:00:00Z" in text
    assert "lakesweep sweep example-repo --mark-id may" in text
    assert "… and 2 more" in text
    assert "note: everything was listed (a clean run)" in text
    assert "deleted" not in lines


@pytest.mark.parametrize(
    ("what", "flow", "said"),
    [
        ("all", "clean", "committed and uncommitted data; everything was listed (a clean run)"),
        (
            "uncommitted",
            "optimized",
            "uncommitted data; only what may have changed was listed (an optimized run)",
        ),
        ("committed", "clean", "committed data"),
        ("all", "auto", "committed and uncommitted data"),
        ("all", BACKUP, None),
    ],
)
def test_what_was_collected_is_said_in_words(
    what: str, flow: str, said: str | None, marked: RunRecord
) -> None:
    """The record's own words for it are for programs."""
    lines = run_text(replace(marked, what=what, flow=flow)).splitlines()
    found = next((line for line in lines if line.startswith("collected ")), None)
    assert found == (f"collected   {said}" if said else None)


def test_a_sweep_accounts_for_the_whole_plan(marked: RunRecord) -> None:
    """Deleted, gone, revived and failed stand under the garbage that they were."""
    swept = replace(
        marked.counted(
            {"deleted": 90, "already_gone": 1, "revived": 1, "failed": 1}, {"deleted": 1 << 20}
        ),
        status=RunStatus.PARTLY_SWEPT,
        reason="denied: data/x/y",
        revived=("data/a/b",),
        failures={"denied": "data/x/y"},
    )
    text = run_text(swept)
    assert "├ deleted                 90      1.0 MiB" in text
    assert "came back to life\n  data/a/b" in text
    assert "failed\n  denied: data/x/y" in text
    assert "lakesweep runs resume example-repo g123" in text
    assert "reason      denied: data/x/y" in text


def test_what_is_young_says_when_it_can_be_collected(marked: RunRecord) -> None:
    """The minimum age, and the time from which on all of it is old enough."""
    young = replace(marked, min_age_seconds=87_000.0).counted({"young": 5}, {"young": 50})
    line = next(line for line in run_text(young).splitlines() if "young" in line)
    assert "younger than 1d10m; collectable from 2026-05-02T12:10:00Z" in line
    unknown = replace(young, min_age_seconds=None)
    assert "too young to be judged" in run_text(unknown)


@pytest.mark.parametrize(("days", "said"), [(1, "1 day,"), (2, "2 days,")])
def test_one_day_is_no_days(marked: RunRecord, days: int, said: str) -> None:
    """As people say it."""
    rules = {**marked.rules, "default_retention_days": days}
    assert f"retention   {said} main 21" in run_text(replace(marked, rules=rules))


def test_a_sweep_that_stopped_says_what_it_did_not_reach(marked: RunRecord) -> None:
    """Its parts make up the whole plan."""
    partly = replace(marked, status=RunStatus.PARTLY_SWEPT)
    text = run_text(partly.counted({"deleted": 90}, {"deleted": 1 << 30}))
    assert "└ kept                     3          0 B  not reached yet" in text


def test_a_sweep_that_ended_reached_everything(marked: RunRecord) -> None:
    """What a restore was to bring back between mark and sweep is kept, and no later sweep of the mark comes to it."""
    swept = replace(marked, status=RunStatus.SWEPT)
    text = run_text(swept.counted({"deleted": 90}, {"deleted": 1 << 30}))
    assert "not reached yet" not in text
    assert "└ kept                     3          0 B  restored since, or their names" in text


def test_a_backup_shows_what_was_copied() -> None:
    """Nothing of marks and sweeps in it."""
    record = RunRecord(
        "example-repo", "backup-1", "may", "all", BACKUP, RunStatus.BACKED_UP, AT
    ).counted({"garbage": 3, "copied": 2, "already_there": 1}, {"garbage": 30, "copied": 20})
    text = run_text(record)
    assert "├ copied                   2         20 B  and verified" in text
    assert "└ already there            1" in text
    assert "next" not in text


def test_a_run_that_never_began_says_so() -> None:
    """Where there is no run id, there is nothing to look up."""
    record = RunRecord("example-repo", "", "", "all", "", RunStatus.REFUSED, AT, reason="too young")
    text = run_text(record)
    assert "refused; nothing was deleted" in text
    assert "(none began)" in text


@pytest.mark.parametrize("status", list(RunStatus))
def test_every_status_has_its_words(marked: RunRecord, status: RunStatus) -> None:
    """A new status without words would be found by its first reader."""
    assert run_text(replace(marked, status=status))


def test_the_table_of_runs_has_one_line_each(marked: RunRecord) -> None:
    """Under a heading of as many columns."""
    head, row = runs_table([marked])
    assert len(head) == len(row)
    assert row[:3] == ("g123", "may", "2026-05-01T12:00:00Z")
