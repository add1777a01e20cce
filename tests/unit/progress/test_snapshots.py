"""A snapshot says how fast a run goes and how long it still takes, or that nobody knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lakesweep.progress import PhaseSnapshot, ProgressSnapshot

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def test_rate_and_time_left_come_from_what_is_done() -> None:
    """A quarter in ten seconds leaves thirty."""
    phase = PhaseSnapshot("delete", items=250, size_bytes=5120, total=1000, seconds=10)
    assert (phase.rate, phase.bytes_rate, phase.share) == (25, 512, 0.25)
    assert phase.seconds_left == 30
    assert str(phase) == (
        "delete: 250 of 1,000 objects, 5.0 KiB, 25/s, 512 B/s, 25%, about 30 s left"
    )


def test_tasks_tell_the_share_where_nobody_knows_a_total() -> None:
    """A listing does not know what it will find."""
    phase = PhaseSnapshot("list", items=900, tasks_done=1, tasks=4, seconds=8)
    assert (phase.share, phase.seconds_left) == (0.25, 24)


@pytest.mark.parametrize("phase", [PhaseSnapshot("list"), PhaseSnapshot("list", total=0)])
def test_no_time_is_made_up(phase: PhaseSnapshot) -> None:
    """Where nothing is known, nothing is said."""
    assert phase.seconds_left is None
    assert "left" not in str(phase)


def test_a_task_that_ran_twice_makes_no_more_than_all() -> None:
    """Reports of a repeated task count twice in the display only, and the share stays one."""
    assert PhaseSnapshot("delete", items=1500, total=1000, seconds=1).share == 1.0


def test_a_run_is_estimated_by_the_last_of_its_kind() -> None:
    """What is left of this phase, and what the later ones took the last time."""
    earlier = {"list": 10.0, "judge": 20.0, "delete": 60.0}
    phases = (
        PhaseSnapshot("list", items=5, seconds=12, is_running=False),
        PhaseSnapshot("judge", unit="names", items=50, total=100, seconds=8),
    )
    run = ProgressSnapshot("repo", BEGAN, 20.0, phases, earlier)
    assert run.seconds_left == 8 + 60
    assert run.share == pytest.approx(20 / 88)
    assert run.objects == 5
    assert str(run) == "whole run: 20 s, 5 objects, about 68 s left"
    assert ProgressSnapshot("repo", BEGAN, 20.0, phases).seconds_left is None


def test_a_phase_of_unknown_length_takes_what_it_took() -> None:
    """Until it takes longer."""
    earlier = {"commits": 5.0, "list": 9.0}
    run = ProgressSnapshot("repo", BEGAN, 2.0, (PhaseSnapshot("commits", seconds=2),), earlier)
    assert run.seconds_left == 3 + 9
    late = ProgressSnapshot("repo", BEGAN, 7.0, (PhaseSnapshot("commits", seconds=7),), earlier)
    assert late.seconds_left == 9


def test_a_phase_that_the_last_run_had_not() -> None:
    """All that has not begun is still to come."""
    earlier = {"list": 9.0, "judge": 4.0}
    phases = (PhaseSnapshot("list", seconds=9, is_running=False), PhaseSnapshot("backup"))
    assert ProgressSnapshot("repo", BEGAN, 9.0, phases, earlier).seconds_left == 4


def test_a_page_gets_plain_json() -> None:
    """With everything that is worked out."""
    run = ProgressSnapshot("repo", BEGAN, 4.0, (PhaseSnapshot("list", items=8, seconds=4),))
    told = json.loads(json.dumps(run.as_json()))
    assert told["phases"][0]["rate"] == 2
    assert told["phases"][0]["seconds_left"] is None
    assert told["started_at"] == "2026-01-01T00:00:00+00:00"
