"""What a judgement costs is told by what is known of its files; where nobody knows, no cost is told."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakesweep.collector.judge.references import GONE
from lakesweep.collector.lakefs import judging
from lakesweep.collector.lakefs.candidates import ExpiredRange, SavedFile
from lakesweep.collector.lakefs.judging import _candidate_seconds, _entries, _lengths
from lakesweep.collector.lakefs.references import EventFile, Reference, StagedFile
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions


@pytest.fixture
def resources() -> Any:
    """A store, and an engine that does small work itself."""
    target = Target(Location.parse(f"mem://costs-{uuid.uuid4().hex}/ns"), StorageOptions())
    return SimpleNamespace(store=target.open(), engine=SimpleNamespace(seconds_here=4.0))


def live_of(files: tuple[str, ...], promised: int | None) -> Any:
    return SimpleNamespace(staged=SimpleNamespace(files=files, rows_promised=promised))


def test_a_list_has_the_rows_that_were_promised_or_as_many_as_its_bytes_allow(
    resources: Any,
) -> None:
    """Nothing is asked of files whose rows the server told."""
    resources.store.write("gone", b"x" * 100)
    resources.store.write("saved", b"x" * 200)
    event, saved = EventFile("gone", GONE, 1), SavedFile("saved")
    references: list[Reference] = [StagedFile("a"), StagedFile("b"), event]
    lengths = _lengths(resources, live_of(("a", "b"), 9), references, [saved])
    assert lengths == {"a": 5, "b": 5, "gone": 10, "saved": 20}
    assert [_entries(item, lengths) for item in references] == [5, 5, 10]
    expired = ExpiredRange(RangeId("r"), 1_000)
    rows = 300 + 1_000 + 20
    told = _candidate_seconds([expired, saved], 300, lengths)
    assert told == pytest.approx(2 * judging.SECONDS_PER_FILE + rows * 2e-6)


@pytest.mark.parametrize("why", ["many", "missing", "elsewhere"])
def test_where_a_length_can_t_be_told_no_cost_is(resources: Any, why: str) -> None:
    """What it may be is for Spark."""
    keys = [f"gone-{number}" for number in range(65 if why == "many" else 2)]
    for key in keys[: 1 if why == "missing" else None]:
        resources.store.write(key, b"x")
    if why == "elsewhere":
        resources.engine.seconds_here = 0.0
    events = cast("list[Reference]", [EventFile(key, GONE, 1) for key in keys])
    lengths = _lengths(resources, live_of((), 0), events, [])
    assert lengths is None
    assert _candidate_seconds([], 10, lengths) is None
