"""Canaries: each must be among the references and come out as live, or the verdicts are not believed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pytest

from lakesweep.collector.judge.meeting import Canaries, CandidateSide, ReferenceSide, judge_all
from lakesweep.collector.judge.references import CANARY, LIVE
from lakesweep.collector.lakefs.candidates import read_candidates
from lakesweep.collector.lakefs.judging import address_judge
from lakesweep.collector.lakefs.references import AddressList, read_references
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

A, B = (f"data/gcoca17haabs73f2gtq0/c{n:018d}0" for n in range(2))


def judged(live: Sequence[str], taken: Sequence[str], sent: Sequence[str], read: set[str]) -> None:
    target = Target(Location.parse(f"mem://canaries-{uuid.uuid4().hex}/ns"), StorageOptions())
    items = [AddressList("live", tuple(live), LIVE), AddressList("canaries", tuple(sent), CANARY)]

    def error(name: str) -> UnsafeToSweepError | None:
        return UnsafeToSweepError(f"{name} is dead") if name in read else None

    judge_all(
        InProcessEngine(),
        ReferenceSide(items, lambda n: partial(read_references, target, n), 2),
        CandidateSide([], lambda n: partial(read_candidates, target, n), 0, 1),
        address_judge(target, "verdicts/", datetime(2026, 1, 1, tzinfo=UTC)),
        Canaries(taken, error),
    )


def test_a_canary_that_no_reference_explains_ends_the_run() -> None:
    """Unless it is live no more: its branch may have moved on since it was taken."""
    judged(live=[A, B], taken=[A, B], sent=[A, B], read={A, B})
    judged(live=[A], taken=[A, B], sent=[A, B], read={A})
    with pytest.raises(UnsafeToSweepError, match=f"{B} is dead"):
        judged(live=[A], taken=[A, B], sent=[A, B], read={A, B})


def test_canaries_that_got_lost_end_the_run() -> None:
    """A catalog that takes canaries and forgets them would prove nothing."""
    with pytest.raises(UnsafeToSweepError, match="2 canaries were taken, 1 were among") as caught:
        judged(live=[A], taken=[A, B], sent=[A], read={B})
    assert caught.value.kind == "not-conserved"
