"""Runs that have ended in all sorts of ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakesweep.collector.record import Phase, RunRecord, RunStatus
from lakesweep.domain.verdicts import Tally
from lakesweep.metrics.outcome import RunOutcome
from lakesweep.progress import Counts

ENDED = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)


@pytest.fixture
def make_outcome() -> Callable[..., RunOutcome]:
    """`make_outcome(exit_status=4, kind="clock-skew")`: a run with a record."""

    def make(**changed: Any) -> RunOutcome:
        began = ENDED - timedelta(seconds=10)
        phases = (
            Phase("list", 2.0, 100, 0.5, 1000),
            Phase("delete", 1.0, 30, 3.0, 300),
            Phase("delete", 0.5, 10, 5.0, 100),
        )
        record = RunRecord(
            "repo",
            "run-1",
            "mark-1",
            "all",
            "clean",
            RunStatus.SWEPT,
            began,
            oldest_garbage=ENDED - timedelta(days=40),
        ).tallied(
            {
                "listed": Tally(100, 1000),
                "garbage": Tally(42, 420),
                "deleted": Tally(40, 400),
                "failed": Tally(2, 20),
            }
        )
        outcome = RunOutcome(
            "gc",
            "lakefs",
            "repo",
            began,
            ENDED,
            record=record,
            phases=phases,
            phases_began_at=began + timedelta(seconds=1),
            retries=Counts(retries=5, throttled=3),
        )
        return replace(outcome, **changed)

    return make
